/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum as MatMul, Mul and ReduceSum: which equations are, why others are not, and that all of them give what the
   reference gives, infinities among the operands or not. */
#include "steps_case.h"

typedef struct test_case {
    const char *ops; /* of products and sums in the simplified graph, each once or more */
    const char *a, *b, *equation, *sizes;
} test_case;

static const test_case cases[] = {
    /* Products of matrices and vectors, transposed in every way. */
    {"MatMul", "float[M,5]", "float[5,N]", "ik,kj->ij", "M=3 N=4"},
    {"MatMul", "float[5,M]", "float[N,5]", "ki,jk->ji", "M=3 N=4"},
    {"MatMul", "float[M,5]", "float[5]", "ik,k->i", "M=7"},
    {"MatMul", "float[5]", "float[5,N]", "k,kj->j", "N=6"},
    {"MatMul", "float[K]", "float[K]", "k,k->", "K=9"},
    {"MatMul", "float[5,7]", "float[N,S,7]", "ed,bsd->bse", "N=2 S=3"},
    {"MatMul", "int32[M,5]", "int32[5,N]", "ik,kj", "M=3 N=4"},
    {"MatMul", "double[M,5]", "double[5,N]", "ik,kj->ij", "M=3 N=4"},
    /* Batches, in order and not; the ellipsis as batch and as rows. */
    {"MatMul", "float[N,3,S,8]", "float[N,3,T,8]", "bhqd,bhkd->bhqk", "N=2 S=5 T=7"},
    {"MatMul", "float[N,3,S,8]", "float[N,3,T,8]", "bhqd,bhkd->bhkq", "N=2 S=5 T=7"},
    {"MatMul", "float[N,S,3,8]", "float[N,T,3,8]", "bqhd,bkhd->bhqk", "N=2 S=5 T=7"},
    {"MatMul", "float[N,3,S,T]", "float[N,T,3,8]", "bhqk,bkhd->bqhd", "N=2 S=5 T=7"},
    {"MatMul", "float[N,4,6]", "float[N,6,5]", "...ij,...jk->...ik", "N=3"},
    {"MatMul", "float[N,4,6]", "float[6,5]", "...ij,jk->...ik", "N=3"},
    {"MatMul", "float[N,S]", "float[N,S]", "bs,bs->b", "N=3 S=4"},
    {"MatMul", "float[N,3,5]", "float[N,5]", "bij,bj->bi", "N=2"},
    {"MatMul", "float[N,5]", "float[N,5,3]", "bj,bjk->kb", "N=2"},
    /* Several labels of a kind. */
    {"MatMul", "float[N,S,3,8]", "float[3,8,5]", "bshd,hde->bse", "N=2 S=4"},
    {"MatMul", "float[N,S,6]", "float[6,3,8]", "bse,ehd->bshd", "N=2 S=4"},
    {"MatMul", "float[N,4,3,6]", "float[N,5,2,6]", "bijd,bkld->bkijl", "N=2"},
    {"MatMul", "float[2,3,4]", "float[4,3,2]", "ijk,kji->", ""},
    /* Nothing summed: elementwise and outer products. */
    {"Mul", "float[M,5]", "float[5,M]", "ij,ji->ij", "M=3"},
    {"Mul", "float[M]", "float[N]", "i,j->ji", "M=3 N=4"},
    {"Mul", "float[M,5]", "float[M]", "ij,i->ij", "M=3"},
    /* A vector is no matrix of one row. */
    {"MatMul", "float[N,S,5]", "float[5]", "...i,i->...", "N=2 S=3"},
    /* A label of one operand alone is summed before the product of integers, behind that of floats. */
    {"MatMul ReduceSum", "int64[M,5]", "int64[5,4]", "ik,kj->j", "M=3"},
    {"MatMul ReduceSum", "float[M,5]", "float[5,4]", "ik,kj->j", "M=3"},
    {"MatMul ReduceSum", "float[N,M,5]", "float[N,5,L]", "nik,nkj->n", "N=2 M=3 L=4"},
    {"MatMul ReduceSum", "float[M,K]", "float[K,4]", "ik,kj->j", "M=0 K=0"},
    {"Mul ReduceSum", "int32[M]", "int32[4]", "i,j->j", "M=3"},
    /* No product: a diagonal, a sum before a product of floats, sizes that may broadcast, a type without products. */
    {"Einsum", "float[3,3]", "float[3,4]", "ii,ij->ij", ""},
    {"Einsum", "float[M]", "float[4]", "i,j->j", "M=3"},
    {"Einsum", "float16[M,5]", "float16[5,4]", "ik,kj->j", "M=3"},
    {"Einsum", "float[4,N]", "float[M,4]", "ik,kj->ij", "M=1 N=3"},
    {"Einsum", "float[4,3]", "float[1,4]", "ik,kj->ij", ""},
    {"Einsum", "int8[M,5]", "int8[5,N]", "ik,kj->ij", "M=3 N=4"},
    /* Empty ones. */
    {"MatMul", "float[N,3,S,8]", "float[N,3,T,8]", "bhqd,bhkd->bhqk", "N=0 S=5 T=7"},
    {"MatMul", "float[N,S,3,8]", "float[N,T,3,8]", "bqhd,bkhd->bhqk", "N=2 S=0 T=7"},
    {"MatMul", "float[M,K]", "float[K,N]", "ik,kj->ij", "M=3 K=0 N=2"},
    {"MatMul", "float[N,4,3,6]", "float[N,5,2,6]", "bijd,bkld->bkijl", "N=0"},
    {"Mul", "float[M]", "float[N]", "i,j->ji", "M=0 N=4"},
};

/* The simplified graph has these operators as often as they are named, and no other of those that are counted. */
static void check_operators(const opf_model *model, const char *ops, bool exactly, const char *text)
{
    static const char *const counted[] = {"MatMul", "Mul", "ReduceSum", "Einsum", "Transpose"};
    const uint32_t n_counted = exactly ? 5 : 4;
    opf_report *report = NULL;
    opf_error error;
    if (opf_model_stage_text(model, "simplify", &report, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, text);
    for (uint32_t i = 0; i < n_counted; i++) {
        char call[20], word[20];
        int have = 0, wanted = 0;
        (void)snprintf(call, sizeof call, "= %s", counted[i]);
        (void)snprintf(word, sizeof word, " %s", counted[i]);
        for (const char *at = strstr(opf_report_text(report), call); at != NULL; at = strstr(at + 1, call))
            have += strchr("(<", at[strlen(call)]) != NULL;
        for (const char *at = ops; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
            wanted += strncmp(at, counted[i], strlen(counted[i])) == 0 && strchr(" ", at[strlen(counted[i])]) != NULL;
        if (exactly ? have != wanted : (have != 0) != (wanted != 0))
            fail_msg("%s has %d %s, must have %d", opf_report_text(report), have, counted[i], wanted);
    }
    opf_report_destroy(&report);
}

/* An infinity of either sign in each operand of floats that is large enough. */
static void add_infinities(const tensors *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        const opf_tensor *t = &inputs->list[i];
        float *x = t->data;
        const size_t n = tensor_count(t);
        if (t->type != OPF_FLOAT || n < 3)
            continue;
        x[n / 2] = INFINITY;
        x[n - 1 - i % 2] = -INFINITY;
    }
}

static void check_infinities(const char *sizes, const char *text)
{
    static const int32_t threads[] = {1, 2, 0};
    const opf_model_options options = {0};
    text_model m;
    tensors inputs;
    results want;
    text_model_open(&m, text, &options, 1);
    make_inputs(m.model, sizes, 7, &inputs);
    add_infinities(&inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    check_run(m.model, OPF_MODE_FUSED, &inputs, &want,
              &(expected){NULL, -1, 1e-5, 1e-5, threads, "infinities", sizes, text});
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
}

static void check(const char *ops, bool exactly, const char *sizes, const char *text)
{
    opf_model_options options = {0};
    text_model m;
    text_model_open(&m, text, &options, 1);
    check_operators(m.model, ops, exactly, text);
    text_model_close(&m);
    if (strstr(text, "float16") == NULL) /* its one rounding is not that of float */
        check_steps(&(steps_case){NULL, -1, sizes, text});
    check_infinities(sizes, text);
}

static void test_two_operands(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "g (%s a, %s b) => (y) { y = Einsum<equation = \"%s\">(a, b) }", cases[i].a,
                       cases[i].b, cases[i].equation);
        check(cases[i].ops, false, cases[i].sizes, text);
    }
}

typedef struct graph_case {
    const char *ops; /* of the simplified graph, each as often as it is there */
    const char *inputs, *equation, *operands, *sizes;
} graph_case;

static const graph_case graph_cases[] = {
    /* One operand: sums and transposes, of all labels, of none; the ellipsis; an output that is not written. */
    {"", "float[N,3] a", "ab", "a", "N=2"},
    {"Transpose", "float[N,3] a", "ba", "a", "N=2"},
    {"Transpose", "float[N,3,4] a", "abc->cab", "a", "N=2"},
    {"Transpose", "float[N,3,4] a", "...ij->...ji", "a", "N=2"},
    {"Transpose", "int8[N,3] a", "ab->ba", "a", "N=2"},
    {"ReduceSum", "float[N,3,4] a", "abc->b", "a", "N=2"},
    {"ReduceSum", "float[N,3,4] a", "abc->", "a", "N=2"},
    {"ReduceSum", "float[N,3,4] a", "i...j->...", "a", "N=2"},
    {"ReduceSum", "float[N,3,4] a", "i...->i", "a", "N=2"},
    {"ReduceSum Transpose", "float[N,3,4] a", "abc->ca", "a", "N=2"},
    {"ReduceSum Transpose", "uint32[N,3,4] a", "abc->ca", "a", "N=0"},
    {"ReduceSum", "float[N,3] a", "ab->b", "a", "N=0"},
    {"ReduceSum", "float16[N,3] a", "ab->b", "a", "N=7"},
    {"Einsum", "int8[N,3] a", "ab->b", "a", "N=90"},
    {"Einsum", "float[3,3] a", "ii->i", "a", ""},
    {"Einsum", "float[N,3,3] a", "nii->n", "a", "N=2"},
    /* More: integers in the cheapest order, of operands that broadcast too. */
    {"MatMul MatMul", "int32[N,4] a, int32[4,5] b, int32[5,6] c", "ij,jk,kl->il", "a, b, c", "N=3"},
    {"MatMul MatMul MatMul", "int64[2,30] a, int64[30,5] b, int64[5,40] c, int64[40,3] d", "ab,bc,cd,de->ae",
     "a, b, c, d", ""},
    {"ReduceSum MatMul MatMul", "int32[N,4] a, int32[4,5] b, int32[5,6] c", "ij,jk,kl->i", "a, b, c", "N=3"},
    {"Einsum Einsum", "int8[N,4] a, int8[4,5] b, int8[5,6] c", "ij,jk,kl->il", "a, b, c", "N=3"},
    {"MatMul Einsum", "int32[N,4] a, int32[1,5] b, int32[5,6] c", "ij,jk,kl->il", "a, b, c", "N=3"},
    /* Floats: no sum before the last product, */
    {"Mul Transpose MatMul", "float[N,I,4] a, float[4] d, float[N,J,4] b", "nid,d,njd->nij", "a, d, b", "N=2 I=3 J=5"},
    {"Mul MatMul", "float[N,4] a, float[N,4] b, float[N,4] c", "bi,bi,bi", "a, b, c", "N=3"},
    {"Mul MatMul", "float[N,4] a, float[N,4] b, float[N,4] c", "bi,bi,bi->b", "a, b, c", "N=3"},
    {"Mul MatMul", "float[N,S,4] a, float[N,S,4] b, float[4] c", "...i,...i,i->...", "a, b, c", "N=3 S=2"},
    {"Mul MatMul", "float[N,4] a, float[N,4] b, float[N] c", "bi,bi,b->b", "a, b, c", "N=3"},
    {"Mul Mul", "float[I] a, float[J] b, float[K] c", "i,j,k->ijk", "a, b, c", "I=2 J=3 K=4"},
    {"Einsum", "float[N,4] a, float[4,5] b, float[5,6] c", "ij,jk,kl->il", "a, b, c", "N=3"},
    {"Einsum", "float[N,4] a, float[N,4] b, float[5] c", "bi,bi,k->k", "a, b, c", "N=3"},
    {"Einsum", "float16[N,4] a, float16[N,4] b, float16[N,4] c", "bi,bi,bi->b", "a, b, c", "N=3"},
    {"Einsum MatMul", "float[3,3] a, float[N,3] b, float[N,3] c", "ii,ni,ni->n", "a, b, c", "N=2"},
    /* but before one with constants that are finite, in whatever order these stand. */
    {"MatMul MatMul", "float[N,2] a", "ij,jk,kl->il", "a, w, v", "N=3"},
    {"MatMul MatMul", "float[N,2] a", "kl,jk,ij->il", "v, w, a", "N=3"},
    {"ReduceSum MatMul", "float[N,S,2] a", "nsj,jk->nk", "a, w", "N=2 S=3"},
    {"Einsum", "float[N,2] a", "ij,jk,kl->il", "a, w, infinite", "N=3"},
    /* Empty, and more operands than orders are tried for. */
    {"MatMul MatMul", "int32[N,K] a, int32[K,5] b, int32[5,6] c", "ij,jk,kl->il", "a, b, c", "N=3 K=0"},
    {"Mul Transpose MatMul", "float[N,I,4] a, float[4] d, float[N,J,4] b", "nid,d,njd->nij", "a, d, b", "N=0 I=3 J=5"},
    {"Mul Mul Mul Mul Mul Mul Mul", "float[N] a", "i,i,i,i,i,i,i,i->i", "a, a, a, a, a, a, a, a", "N=3"},
    {"Einsum", "float[N] a", "i,i,i,i,i,i,i,i,i->i", "a, a, a, a, a, a, a, a, a", "N=3"},
};

static void test_other_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof graph_cases / sizeof *graph_cases; i++) {
        const graph_case *c = &graph_cases[i];
        char text[500];
        (void)snprintf(text, sizeof text,
                       "g (%s) => (y) <float[2,3] w = {1,-2,3,4,5,-6}, float[3,2] v = {1,-1,2,0,-3,5},\n"
                       "float[3,2] infinite = {1,-1,2,0,-3,inf}>\n"
                       "{ y = Einsum<equation = \"%s\">(%s) }",
                       c->inputs, c->equation, c->operands);
        check(c->ops, true, c->sizes, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_operands), cmocka_unit_test(test_other_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
