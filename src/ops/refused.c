/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/refused.h"

#include <string.h>

#define STRINGS   "works on strings"
#define SEQUENCES "works on sequences"
#define OPTIONALS "works on optional values"
#define MAPS      "works on maps"
#define IMAGES    "decodes images"
#define TRAINING  "trains"
#define REMOVED   "experimental, and no longer part of ONNX"
#define ML        "ai.onnx.ml"

static const opf_refused refused[] = {
    {"", "ATen", REMOVED},
    {"", "Affine", REMOVED},
    {"", "ConcatFromSequence", SEQUENCES},
    {"", "ConstantFill", REMOVED},
    {"", "Crop", REMOVED},
    {"", "DynamicSlice", REMOVED},
    {"", "GRUUnit", REMOVED},
    {"", "GivenTensorFill", REMOVED},
    {"", "ImageDecoder", IMAGES},
    {"", "ImageScaler", REMOVED},
    {"", "Optional", OPTIONALS},
    {"", "OptionalGetElement", OPTIONALS},
    {"", "OptionalHasElement", OPTIONALS},
    {"", "ParametricSoftplus", REMOVED},
    {"", "RegexFullMatch", STRINGS},
    {"", "Scale", REMOVED},
    {"", "ScaledTanh", REMOVED},
    {"", "SequenceAt", SEQUENCES},
    {"", "SequenceConstruct", SEQUENCES},
    {"", "SequenceEmpty", SEQUENCES},
    {"", "SequenceErase", SEQUENCES},
    {"", "SequenceInsert", SEQUENCES},
    {"", "SequenceLength", SEQUENCES},
    {"", "SequenceMap", SEQUENCES},
    {"", "SplitToSequence", SEQUENCES},
    {"", "StringConcat", STRINGS},
    {"", "StringNormalizer", STRINGS},
    {"", "StringSplit", STRINGS},
    {"", "TfIdfVectorizer", "counts words of text"},
    {ML, "CastMap", MAPS},
    {ML, "CategoryMapper", STRINGS},
    {ML, "DictVectorizer", MAPS},
    {ML, "ZipMap", MAPS},
    {"ai.onnx.preview.training", NULL, TRAINING},
    {"ai.onnx.training", NULL, TRAINING},
};

const opf_refused *opf_all_refused(uint32_t *n)
{
    *n = sizeof refused / sizeof *refused;
    return refused;
}

const char *opf_refusal(const char *domain, const char *op_type)
{
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i].domain, domain) == 0 && (refused[i].op_type == NULL || strcmp(refused[i].op_type, op_type) == 0))
            return refused[i].why;
    return NULL;
}
