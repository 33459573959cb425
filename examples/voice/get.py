# SPDX-License-Identifier: Apache-2.0
"""Fills build/models/voice.

The model is Silero VAD (MIT) from the package silero-vad. The sound is made here: nobody speaks, but syllables of a small
formant synthesiser (a pulse a period for the vocal cords, three resonances for the mouth) are enough for the model.
"""

import math
import pathlib
import sys
import wave

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import fetch

RATE = 16000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240))  # formants in Hz
WIDTHS = (80, 100, 140)  # of the formants
PARTS = ((False, 1.0), (True, 2.0), (False, 1.5), (True, 1.2), (False, 1.0))  # speech or none, seconds


def resonate(samples, frequency, width):
    radius = math.exp(-math.pi * width / RATE)
    a, b = 2 * radius * math.cos(2 * math.pi * frequency / RATE), -radius * radius
    result, last, older = [], 0.0, 0.0
    for sample in samples:
        last, older = (1 - a - b) * sample + a * last + b * older, last
        result.append(last)
    return np.array(result)


def syllable(formants, samples, pitch, random):
    phase = np.cumsum(pitch / RATE) % 1
    sound = np.diff(np.where(phase < 0.6, np.sin(np.pi * phase / 0.6) ** 2, 0), prepend=0)
    sound += 0.003 * random.standard_normal(samples)
    for formant, width in zip(formants, WIDTHS):
        sound = resonate(sound, formant, width)
    return 0.5 * sound / np.abs(sound).max() * np.sin(np.pi * np.linspace(0, 1, samples)) ** 0.5


def speech(seconds, random):
    """Consonants, which are short noises, and vowels in turn."""
    parts, samples = [], 0
    while samples < seconds * RATE:
        hiss = 0.1 * np.diff(random.standard_normal(int(random.uniform(0.02, 0.06) * RATE)), prepend=0)
        length, pitch = int(random.uniform(0.12, 0.25) * RATE), random.uniform(110, 150)
        pitch = np.linspace(pitch, pitch * random.uniform(0.8, 1.1), length)
        parts += [hiss, syllable(VOWELS[random.integers(len(VOWELS))], length, pitch, random)]
        samples += len(hiss) + length
    return np.concatenate(parts)[: int(seconds * RATE)]


def save(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def main():
    folder = fetch.folder("voice")
    fetch.take("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx", folder / "silero_vad.onnx")
    random = np.random.default_rng(1)
    parts = [speech(seconds, random) if speaks else np.zeros(int(seconds * RATE)) for speaks, seconds in PARTS]
    sound = np.concatenate(parts)
    save(folder / "sound.wav", sound + 0.002 * random.standard_normal(len(sound)))


if __name__ == "__main__":
    main()
