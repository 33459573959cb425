/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voice MODEL.onnx SOUND.wav
 *
 * Finds where somebody speaks, with Silero VAD, and prints from when to when. The sound is 16 bits, one channel, 16 kHz. The
 * model reads a frame of 512 samples, the 64 before it, and a state that it gave at the frame before: the two buffers of the
 * state change places after each run, and a run allocates nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <opfuse/opfuse.h>

enum { RATE = 16000, FRAME = 512, CONTEXT = 64, STATE = 2 * 128, PATIENCE = 4 };

static const float SPEAKS = 0.5F, SILENT = 0.35F; /* probabilities; between them all stays as it is */

/* ---- the sound ---- */

static uint32_t little_endian(const unsigned char *bytes, int n)
{
    uint32_t number = 0;
    for (int i = n - 1; i >= 0; i--)
        number = number << 8 | bytes[i];
    return number;
}

static unsigned char *read_file(const char *path, size_t *n)
{
    FILE          *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long           size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        data = malloc((size_t)size + 1);
    *n = data != NULL ? fread(data, 1, (size_t)size, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    return data;
}

/* A part of a RIFF file; NULL if it has none of that name that is at least this long. */
static const unsigned char *find_chunk(const unsigned char *data, size_t size, const char *name, size_t least, size_t *length)
{
    for (size_t at = 12; at + 8 <= size;) {
        const size_t rest = size - at - 8;
        *length           = little_endian(data + at + 4, 4);
        if (*length > rest)
            *length = rest; /* a recording that was cut off */
        if (memcmp(data + at, name, 4) == 0)
            return *length >= least ? data + at + 8 : NULL;
        at += 8 + *length + *length % 2;
    }
    return NULL;
}

/* Samples in -1..1; the caller frees them. NULL, with the reason on stderr, when the file is no such sound. */
static float *read_sound(const char *path, size_t *n)
{
    size_t               size, length;
    float               *samples = NULL;
    unsigned char       *data    = read_file(path, &size);
    const unsigned char *form = NULL, *sound = NULL;
    if (data != NULL && size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WAVE", 4) == 0) {
        form  = find_chunk(data, size, "fmt ", 16, &length);
        sound = find_chunk(data, size, "data", 0, &length);
    }
    const bool is_ok = form != NULL && sound != NULL && little_endian(form, 2) == 1 && little_endian(form + 2, 2) == 1 &&
                       little_endian(form + 4, 4) == RATE && little_endian(form + 14, 2) == 16;
    *n = is_ok ? length / 2 : 0;
    if (is_ok)
        samples = malloc((*n + 1) * sizeof *samples);
    for (size_t i = 0; i < *n && samples != NULL; i++)
        samples[i] = (float)(int16_t)little_endian(sound + 2 * i, 2) / 32768.0F;
    if (data == NULL)
        perror(path);
    else if (samples == NULL)
        fprintf(stderr, "%s: not a WAV file of 16 bits, one channel, %d Hz\n", path, RATE);
    free(data);
    return samples;
}

/* ---- the model ---- */

typedef struct detector {
    opf_session *session;
    float        frame[CONTEXT + FRAME];
    float        states[2][STATE];
    int          state; /* the one that the next run reads */
} detector;

/* The probability that somebody speaks in the next frame. */
static opf_status listen(detector *d, const float *samples, float *probability, opf_error *error)
{
    int64_t rate = RATE;
    memmove(d->frame, d->frame + FRAME, CONTEXT * sizeof(float));
    memcpy(d->frame + CONTEXT, samples, FRAME * sizeof(float));
    const opf_tensor inputs[3] = {
        {.type = OPF_FLOAT, .rank = 2, .dims = {1, CONTEXT + FRAME}, .data = d->frame, .bytes = sizeof d->frame},
        {.type = OPF_FLOAT, .rank = 3, .dims = {2, 1, STATE / 2}, .data = d->states[d->state], .bytes = sizeof d->states[0]},
        {.type = OPF_INT64, .data = &rate, .bytes = sizeof rate},
    };
    opf_tensor outputs[2] = {
        {.data = probability, .bytes = sizeof *probability},
        {.data = d->states[1 - d->state], .bytes = sizeof d->states[0]},
    };
    d->state = 1 - d->state;
    return opf_session_run(d->session, inputs, 3, outputs, 2, error);
}

static double seconds(size_t frame)
{
    return (double)frame * FRAME / RATE;
}

/* Speech ends where it has been silent for some frames. */
static opf_status find_speech(detector *d, const float *samples, size_t n, opf_error *error)
{
    bool   speaks = false;
    size_t begin = 0, end = 0, passages = 0;
    float  probability = 0;
    for (size_t f = 0; f < n / FRAME; f++) {
        const opf_status status = listen(d, samples + f * FRAME, &probability, error);
        if (status)
            return status;
        if (probability > SPEAKS && !speaks)
            begin = f;
        speaks = speaks || probability > SPEAKS;
        if (probability > SILENT)
            end = f + 1;
        if (speaks && f + 1 - end >= PATIENCE) {
            printf("speech from %.2f s to %.2f s\n", seconds(begin), seconds(end));
            speaks = false;
            passages++;
        }
    }
    if (speaks) {
        printf("speech from %.2f s to %.2f s\n", seconds(begin), seconds(end));
        passages++;
    }
    printf("%zu passage%s in %.2f s\n", passages, passages == 1 ? "" : "s", (double)n / RATE);
    return OPF_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: voice MODEL.onnx SOUND.wav\n");
        return 2;
    }
    size_t n;
    float *samples = read_sound(argv[2], &n);
    if (samples == NULL)
        return 1;
    const opf_session_options options = {.threads = 1}; /* a frame is too little work to share */
    static detector           d;
    opf_error                 error;
    opf_model                *model  = NULL;
    opf_status                status = opf_model_open(argv[1], NULL, &model, &error);
    if (!status)
        status = opf_session_create(model, &options, &d.session, &error);
    if (!status)
        status = find_speech(&d, samples, n, &error);
    if (status)
        fprintf(stderr, "voice: %s\n", error.message);
    opf_session_destroy(&d.session);
    opf_model_destroy(&model);
    free(samples);
    return status ? 1 : 0;
}
