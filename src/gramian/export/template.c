/* @TITLE@.
 *
 * C99, needs libm only. No allocation, no state: any number of threads may call.
 *
@IF_TABLE@ *   typedef struct { double number; const char *text; } @NAME@_cell;
 *       A cell of a row: text in UTF-8, or a number: 0 and 1 for booleans, days for durations, days since 1970
 *       for dates. Missing is NULL for text, NAN for numbers. Infinity counts as a very large number.
@END@ *   void @NAME@_decision(const @CELL@ *x, @ANSWER@ *out)
 *       Writes the @OUTPUTS@ decision values (predictions of a regressor) of a row of @ROW@.
 *   int @NAME@_predict(const @CELL@ *x)
 *       Returns the place of the row's class in @NAME@_labels; classifiers only.
@IF_CHANCES@ *   void @NAME@_probabilities(const @CELL@ *x, double *out)
 *       Writes the probability of each class.
@END@ *   void @NAME@_decision_batch(const @CELL@ *X, long n, @ANSWER@ *out)
 *   void @NAME@_predict_batch(const @CELL@ *X, long n, int *out)
 *       The same for n rows, one after another.
 *
@IF_NOT_TABLE@ * As a program that reads rows of a CSV file (no header) and writes predictions:
 *
 *   cc -std=c99 -O3 -D@NAME@_MAIN -o @NAME@ @FILE@ -lm && ./@NAME@ < rows.csv
 *
@END@ * In C++, declare the functions in extern "C".
 */
#include <math.h>
@IF_TABLE@#include <stddef.h>
#include <string.h>

typedef struct { double number; const char *text; } @NAME@_cell;
@END@
typedef @REAL@ real; /* of the arithmetic */

enum { FEATURES = @FEATURES@, DIRECTIONS = @DIRECTIONS@, LEVELS = @LEVELS@, UNITS = @UNITS@, OUTPUTS = @OUTPUTS@ };
enum { LEAVES = 1 << LEVELS, WIDTH = UNITS + OUTPUTS };
@IF_TABLE@enum { COLUMNS = @COLUMNS@@IF_CHANCES@, CLASSES = @CLASSES@@END@ };
@END@
@IF_CENTER@/* Subtracted from x in double, so that features far from 0 keep their digits. */
static const double CENTER[FEATURES] = {
@CENTER@
};
@END@/* z = x PROJECTION - OFFSET */
static const real PROJECTION[FEATURES][DIRECTIONS] = {
@PROJECTION@
};
static const real OFFSET[DIRECTIONS] = {
@OFFSET@
};
@IF_PLANES@/* Half-spaces, breadth first: from node i to 2 i + 2 where PLANES[i] . [z, 1] > 0, to 2 i + 1 elsewhere. */
static const real PLANES[LEAVES - 1][DIRECTIONS + 1] = {
@PLANES@
};
@END@/* Of each leaf: [z, 1, z^2] FORMS are the units' denominators and the linear parts. */
static const real FORMS[LEAVES][2 * DIRECTIONS + 1][WIDTH] = {
@FORMS@
};
@IF_WEIGHTS@static const real WEIGHTS[LEAVES][UNITS][OUTPUTS] = {
@WEIGHTS@
};
@END@@LABELS@
@IF_NOT_TABLE@void @NAME@_decision(const float *x, float *out)
@END@@IF_TABLE@static void values_of(const real *x, real *out)
@END@{
    real z[DIRECTIONS], form[WIDTH]@IF_CENTER@, moved[FEATURES]@END@;
    int leaf = 0;
@IF_CENTER@    for (int i = 0; i < FEATURES; i++)
        moved[i] = (real)((double)x[i] - CENTER[i]);
@END@    for (int j = 0; j < DIRECTIONS; j++)
        z[j] = -OFFSET[j];
    /* Four features at a time: z is read and written a quarter as often. */
    for (int i = 0; i + 4 <= FEATURES; i += 4)
        for (int j = 0; j < DIRECTIONS; j++)
            z[j] += (@INPUT@[i] * PROJECTION[i][j] + @INPUT@[i + 1] * PROJECTION[i + 1][j])
                + (@INPUT@[i + 2] * PROJECTION[i + 2][j] + @INPUT@[i + 3] * PROJECTION[i + 3][j]);
    for (int i = FEATURES - FEATURES % 4; i < FEATURES; i++)
        for (int j = 0; j < DIRECTIONS; j++)
            z[j] += @INPUT@[i] * PROJECTION[i][j];
@IF_PLANES@    for (int level = 0; level < LEVELS; level++) {
        real side = PLANES[leaf][DIRECTIONS];
        for (int j = 0; j < DIRECTIONS; j++)
            side += PLANES[leaf][j] * z[j];
        leaf = 2 * leaf + (side > 0 ? 2 : 1);
    }
    leaf -= LEAVES - 1;
@END@    for (int j = 0; j < WIDTH; j++)
        form[j] = FORMS[leaf][DIRECTIONS][j];
    for (int i = 0; i < DIRECTIONS; i++)
        for (int j = 0; j < WIDTH; j++)
            form[j] += z[i] * (FORMS[leaf][i][j] + z[i] * FORMS[leaf][DIRECTIONS + 1 + i][j]);
@IF_WEIGHTS@    for (int j = 0; j < UNITS; j++) {
        const real unit = form[j] < 1 ? 1 : 1 / form[j];
        for (int k = 0; k < OUTPUTS; k++)
            form[UNITS + k] += unit * WEIGHTS[leaf][j][k];
    }
@END@    for (int k = 0; k < OUTPUTS; k++)
        out[k] = @IF_NOT_TABLE@(float)@END@form[UNITS + k];
}
@IF_TABLE@
@TABLE@@END@
void @NAME@_decision_batch(const @CELL@ *X, long n, @ANSWER@ *out)
{
    for (long i = 0; i < n; i++)
        @NAME@_decision(X + i * @STRIDE@, out + i * OUTPUTS);
}
@IF_LABELS@
int @NAME@_predict(const @CELL@ *x)
{
    @ANSWER@ value[OUTPUTS];
    @NAME@_decision(x, value);
@IF_BINARY@    return value[0] > 0;
@END@@IF_NOT_BINARY@    int best = 0;
    for (int k = 1; k < OUTPUTS; k++)
        if (value[k] > value[best])
            best = k;
    return best;
@END@}

void @NAME@_predict_batch(const @CELL@ *X, long n, int *out)
{
    for (long i = 0; i < n; i++)
        out[i] = @NAME@_predict(X + i * @STRIDE@);
}
@END@@IF_NOT_TABLE@
#ifdef @NAME@_MAIN
#include <stdio.h>
#include <stdlib.h>

/* Reads the numbers of one line; returns 0 at the end of the input, 1 for a row, -1 for anything else. */
static int read_row(float *x)
{
    char word[64];
    int c = getchar(), count = 0;
    if (c == EOF)
        return 0;
    for (;; c = getchar()) {
        int length = 0;
        char *end;
        for (; c != ',' && c != '\n' && c != EOF; c = getchar())
            if (c != '\r' && length < (int)sizeof word - 1)
                word[length++] = (char)c;
        word[length] = 0;
        if (count == FEATURES)
            return -1;
        x[count++] = strtof(word, &end);
        while (*end == ' ')
            end++;
        if (length == 0 || *end)
            return -1;
        if (c != ',')
            return count == FEATURES ? 1 : -1;
    }
}

int main(void)
{
    float x[FEATURES];
    for (long line = 1;; line++) {
        const int found = read_row(x);
        if (found == 0)
            return 0;
        if (found < 0) {
            fprintf(stderr, "line %ld: expected %d numbers between commas\n", line, (int)FEATURES);
            return 1;
        }
@IF_LABELS@        printf("@FORMAT@\n", @NAME@_labels[@NAME@_predict(x)]);
@END@@IF_NOT_LABELS@        float value[OUTPUTS];
        @NAME@_decision(x, value);
        for (int k = 0; k < OUTPUTS; k++)
            printf(k + 1 < OUTPUTS ? "%.9g," : "%.9g\n", value[k]);
@END@    }
}
#endif
@END@