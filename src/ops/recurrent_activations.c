/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recurrent_activations.h"

#include <math.h>
#include <strings.h>

static double relu(double x, double alpha, double beta)
{
    (void)alpha;
    (void)beta;
    return x < 0 ? 0 : x;
}
static double tanh_of(double x, double alpha, double beta)
{
    (void)alpha;
    (void)beta;
    return tanh(x);
}
static double sigmoid(double x, double alpha, double beta)
{
    (void)alpha;
    (void)beta;
    return 1 / (1 + exp(-x));
}
static double softsign(double x, double alpha, double beta)
{
    (void)alpha;
    (void)beta;
    return x / (1 + fabs(x));
}
static double softplus(double x, double alpha, double beta)
{
    (void)alpha;
    (void)beta;
    return isnan(x) ? x : log1p(exp(-fabs(x))) + fmax(x, 0);
}
static double affine(double x, double alpha, double beta)
{
    return alpha * x + beta;
}
static double leaky_relu(double x, double alpha, double beta)
{
    (void)beta;
    return x < 0 ? alpha * x : x;
}
static double thresholded_relu(double x, double alpha, double beta)
{
    (void)beta;
    return x >= alpha ? x : 0;
}
static double scaled_tanh(double x, double alpha, double beta)
{
    return alpha * tanh(beta * x);
}
static double hard_sigmoid(double x, double alpha, double beta)
{
    const double y = alpha * x + beta;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double elu(double x, double alpha, double beta)
{
    (void)beta;
    return x < 0 ? alpha * expm1(x) : x;
}

static const struct {
    const char *name;
    double (*function)(double x, double alpha, double beta);
    bool   has_alpha, has_beta;
    double alpha, beta;
} activations[] = {
    {"Affine", affine, true, true, 1, 0},
    {"Elu", elu, true, false, 1, 0},
    {"HardSigmoid", hard_sigmoid, true, true, (double)0.2f, 0.5},
    {"LeakyRelu", leaky_relu, true, false, (double)0.01f, 0},
    {"Relu", relu, false, false, 0, 0},
    {"ScaledTanh", scaled_tanh, true, true, 1, 1},
    {"Sigmoid", sigmoid, false, false, 0, 0},
    {"Softplus", softplus, false, false, 0, 0},
    {"Softsign", softsign, false, false, 0, 0},
    {"Tanh", tanh_of, false, false, 0, 0},
    {"ThresholdedRelu", thresholded_relu, true, false, 1, 0},
};

static double next_of(const opf_attr *list, uint32_t *used, double otherwise)
{
    if (list == NULL || list->type != OPF_ATTR_FLOATS || *used >= list->n)
        return otherwise;
    return (double)list->floats[(*used)++];
}

opf_status opf_activations_read(const opf_attr *attrs, uint32_t n_attrs, const opf_recurrence *recurrence,
                                uint32_t directions, opf_activation *list, opf_error *error)
{
    const opf_attr *names   = opf_attrs_find(attrs, n_attrs, "activations");
    const opf_attr *alphas  = opf_attrs_find(attrs, n_attrs, "activation_alpha");
    const opf_attr *betas   = opf_attrs_find(attrs, n_attrs, "activation_beta");
    const uint32_t  wanted  = recurrence->functions * directions;
    uint32_t        n_alpha = 0, n_beta = 0;
    if (names != NULL && names->n == 0)
        names = NULL;
    OPF_FAIL_IF(error, names != NULL && (names->type != OPF_ATTR_STRINGS || names->n < wanted), OPF_INVALID_MODEL,
                "%u activations, must be %u", names != NULL ? names->n : 0, wanted);
    for (uint32_t i = 0; i < wanted; i++) {
        const char *name = names != NULL ? names->strings[i] : recurrence->defaults[i % recurrence->functions];
        uint32_t    a    = 0;
        while (a < OPF_COUNT(activations) && strcasecmp(activations[a].name, name) != 0)
            a++;
        OPF_FAIL_IF(error, a == OPF_COUNT(activations), OPF_UNSUPPORTED, "activation \"%s\" is not known", name);
        list[i].function = activations[a].function;
        list[i].alpha    = activations[a].has_alpha ? next_of(alphas, &n_alpha, activations[a].alpha) : 0;
        list[i].beta     = activations[a].has_beta ? next_of(betas, &n_beta, activations[a].beta) : 0;
    }
    return OPF_OK;
}
