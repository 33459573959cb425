/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum of two operands as MatMul or Mul: which equations are, and that all of them give what the reference gives. */
#include "steps_case.h"

typedef struct test_case {
    const char *op; /* that the simplified graph has, and no other of these */
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
    /* No product: a diagonal, a sum of one operand, sizes that may broadcast, a type without products. */
    {"Einsum", "float[3,3]", "float[3,4]", "ii,ij->ij", ""},
    {"Einsum", "float[M,5]", "float[5,4]", "ik,kj->j", "M=3"},
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

static void check_operator(const opf_model *model, const test_case *c, const char *text)
{
    static const char *const ops[] = {"= MatMul(", "= Mul(", "= Einsum<"};
    opf_report *report = NULL;
    opf_error error;
    if (opf_model_stage_text(model, "simplify", &report, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, text);
    const char *simplified = opf_report_text(report);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const bool wanted = strncmp(ops[i] + 2, c->op, strlen(c->op)) == 0;
        if ((strstr(simplified, ops[i]) != NULL) != wanted)
            fail_msg("%s has %s%s", simplified, wanted ? "no " : "", ops[i]);
    }
    opf_report_destroy(&report);
}

static void check(const test_case *c)
{
    char text[300];
    (void)snprintf(text, sizeof text, "g (%s a, %s b) => (y) { y = Einsum<equation = \"%s\">(a, b) }", c->a, c->b,
                   c->equation);
    opf_model_options options = {0};
    text_model m;
    text_model_open(&m, text, &options, 1);
    check_operator(m.model, c, text);
    text_model_close(&m);
    check_steps(&(steps_case){NULL, -1, c->sizes, text});
}

static void test_equations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
