/* Columns: kind; places of the value or the first category, of the missing-value indicator or category, of
 * unknown categories, of season, weekday and time of day, -1 for none; first category and their number; number
 * for a missing one; what is subtracted. A category's text is sorted by its bytes. */
enum { UNUSED, NUMBER, BOOLEAN, DATE, DURATION, CODE, TEXT };
enum { STANDARD, ROBUST, QUANTILE, SWITCH, KEEP, NONE, LOG, YEO_JOHNSON };
static const struct {
    int kind, value, gone, other, season, weekday, hour, first, count;
    double fill, origin;
} COLUMN[COLUMNS] = {
@COLUMN@
};
static const char *const TEXTS[] = {
@TEXTS@
};
static const double NUMBERS[] = {
@NUMBERS@
};
/* Text and numbers that are missing values. */
static const char *const MISSING[] = { @MISSING@ };
static const double LOST[] = { @LOST@ };
/* Means of the levels of categories: place, a level's own place, its number. */
static const struct {
    int to, level;
    double mean;
} MEAN[] = {
@MEAN@
};
/* Numbers of the levels of categories of many levels: column, place, first level (a text or code, ascending) and
 * their number, first value and their number. */
static const struct {
    int column, to, first, count, value, values;
} LOOKUP[] = {
@LOOKUP@
};
/* Scaling of each place: how, first point of its curve and their number, shift, scale. */
static const struct {
    int how, first, count;
    double shift, scale;
} SCALING[FEATURES] = {
@SCALING@
};
@IF_NOT_LABELS@/* From values to predictions: unit inverse(mean + scale cut(centre + spread value)). */
static const struct {
    int how, first, count;
    double spread, centre, low, high, scale, mean, power, unit;
} BACK[OUTPUTS] = {
@BACK@
};
@END@static const double CURVES[][2] = {
@CURVES@
};

static double cut(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The line through points, constant beyond its ends. */
static double curve(const double (*points)[2], int count, double x)
{
    int low = 0, high = count - 1;
    if (x <= points[0][0])
        return points[0][1];
    if (x >= points[high][0])
        return points[high][1];
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (points[middle][0] <= x)
            low = middle;
        else
            high = middle;
    }
    return points[low][1] + (x - points[low][0])
        * ((points[high][1] - points[low][1]) / (points[high][0] - points[low][0]));
}

/* The length of the text of a day such as 2024-05-31 where nothing or a time of midnight follows, else 0. */
static size_t day_length(const char *text)
{
    const size_t n = strspn(text, "0123456789-");
    const char *const rest = text + n;
    if (n != 10 || text[4] != '-' || text[7] != '-')
        return 0;
    return *rest == 0 || ((*rest == ' ' || *rest == 'T') && strspn(rest + 1, "0:.") == strlen(rest + 1)) ? n : 0;
}

/* Whether two texts are the same day, with and without a time of midnight. */
static int same_day(const char *a, const char *b)
{
    const size_t n = day_length(a);
    return n > 0 && day_length(b) == n && memcmp(a, b, n) == 0;
}

/* Whether two codes are the same in float, which one of them is rounded to. */
static int same_code(double a, double b)
{
    return (float)a == (float)b && a != floor(a) && b != floor(b) && ((float)a == a || (float)b == b);
}

/* The place of a cell that is written otherwise than in training, -1 if it is none of the texts or codes. */
static int found_otherwise(int by_text, int first, int count, const @NAME@_cell *cell)
{
    for (int k = 0; k < count; k++)
        if (by_text ? same_day(cell->text, TEXTS[first + k]) : same_code(cell->number, NUMBERS[first + k]))
            return k;
    return -1;
}

/* The place of a cell among ascending texts or codes, -1 if it is none of them. */
static int found(int by_text, int first, int count, const @NAME@_cell *cell)
{
    int low = first, high = first + count;
    while (low < high) {
        const int middle = (low + high) / 2;
        const int order = by_text ? strcmp(cell->text, TEXTS[middle])
            : (cell->number > NUMBERS[middle]) - (cell->number < NUMBERS[middle]);
        if (order == 0)
            return middle - first;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return found_otherwise(by_text, first, count, cell);
}

/* Whether text is missing, or says so, without the spaces around it. */
static int says_missing(const char *text)
{
    size_t n;
    if (text == NULL)
        return 1;
    text += strspn(text, " ");
    for (n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        ;
    for (int k = 0; k < @MISSINGS@; k++)
        if (strlen(MISSING[k]) == n && memcmp(MISSING[k], text, n) == 0)
            return 1;
    return 0;
}

/* A number, NaN in place of one that is a missing value. */
static double present(double number)
{
    for (int k = 0; k < @LOSTS@; k++)
        if (number == LOST[k])
            return NAN;
    return number;
}

static int lost(int j, const @NAME@_cell *cell)
{
    return COLUMN[j].kind == TEXT ? says_missing(cell->text) : isnan(present(cell->number));
}

/* The number of a level, 0 for one that is missing or unknown. */
static double level(int k, const @NAME@_cell *cell)
{
    const int j = LOOKUP[k].column;
    const int at = lost(j, cell) ? -1 : found(COLUMN[j].kind == TEXT, LOOKUP[k].first, LOOKUP[k].count, cell);
    return at < 0 ? 0 : NUMBERS[LOOKUP[k].value + at];
}

/* The place of a category in column j, whose codes are in any order. */
static int category(int j, const @NAME@_cell *cell)
{
    int at = 0;
    if (lost(j, cell))
        return COLUMN[j].gone;
    if (COLUMN[j].kind == TEXT)
        at = found(1, COLUMN[j].first, COLUMN[j].count, cell);
    else
        while (at < COLUMN[j].count && NUMBERS[COLUMN[j].first + at] != cell->number)
            at++;
    if (COLUMN[j].kind == CODE && at == COLUMN[j].count)
        at = found_otherwise(0, COLUMN[j].first, COLUMN[j].count, cell);
    return 0 <= at && at < COLUMN[j].count ? COLUMN[j].value + at : COLUMN[j].other;
}

/* The day of the year, from 0, of a whole day since 1970: eras of 400 years have 146,097 days and begin in
 * March. */
static int day_of_year(double day)
{
    const double shifted = day + 719468;
    const int d = (int)(shifted - 146097 * floor(shifted / 146097));
    const int year = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    const int from_march = d - (365 * year + year / 4 - year / 100);
    const int leap = year % 4 == 0 && (year % 100 != 0 || year == 0);
    return from_march < 306 ? from_march + 59 + leap : from_march - 306;
}

static void turn(double turns, double *x)
{
    const double angle = 6.283185307179586 * turns;
    x[0] = sin(angle);
    x[1] = cos(angle);
}

static real scaled(int j, double value)
{
    const double x = cut(value, -@LARGEST@, @LARGEST@);
    double t = cut((x - SCALING[j].shift) / SCALING[j].scale, -@HARD@, @HARD@);
    if (SCALING[j].how == ROBUST)
        t /= sqrt(1 + (t / @SOFT@) * (t / @SOFT@));
    if (SCALING[j].how == QUANTILE) {
        const double (*const points)[2] = CURVES + SCALING[j].first;
        const double over = cut((x - points[SCALING[j].count - 1][0]) / SCALING[j].scale, 0, 1e15);
        const double under = cut((points[0][0] - x) / SCALING[j].scale, 0, 1e15);
        t = curve(points, SCALING[j].count, x) + @TAIL@ * (over / (1 + over) - under / (1 + under));
    }
    return (real)(@NUMBER@)t;
}

/* Writes the numbers that stand for a row. */
static void encode(const @NAME@_cell *row, real *out)
{
    double x[FEATURES] = { 0 };
    for (int j = 0; j < COLUMNS; j++) {
        const double number = (@NUMBER@)present(row[j].number), whole = floor(number);
        const int gone = isnan(number);
        if (COLUMN[j].kind == CODE || COLUMN[j].kind == TEXT) {
            const int place = category(j, row + j);
            if (place >= 0)
                x[place] = 1;
            continue;
        }
        if (COLUMN[j].kind == UNUSED)
            continue;
        if (COLUMN[j].value >= 0)
            x[COLUMN[j].value] = (@NUMBER@)((gone ? COLUMN[j].fill : number) - COLUMN[j].origin);
        if (COLUMN[j].gone >= 0)
            x[COLUMN[j].gone] = gone;
        if (COLUMN[j].kind != DATE || !(fabs(number) < 1e9))
            continue;
        if (COLUMN[j].season >= 0)
            turn((day_of_year(whole) + number - whole) / @YEAR@, x + COLUMN[j].season);
        if (COLUMN[j].weekday >= 0) /* day 0 was a Thursday */
            x[COLUMN[j].weekday + (int)(whole + 3 - 7 * floor((whole + 3) / 7))] = 1;
        if (COLUMN[j].hour >= 0)
            turn(number - whole, x + COLUMN[j].hour);
    }
    for (int k = 0; k < @LOOKUPS@; k++)
        x[LOOKUP[k].to] = level(k, row + LOOKUP[k].column);
    for (int k = 0; k < @MEANS@; k++)
        x[MEAN[k].to] += MEAN[k].mean * x[MEAN[k].level];
    for (int j = 0; j < FEATURES; j++)
        out[j] = scaled(j, x[j]);
}
@IF_NOT_LABELS@
static double unbox(double h, double power)
{
    return power > 0 ? expm1(log1p(power * h) / power) : expm1(h);
}

static double prediction(int k, double value)
{
    double h = cut(BACK[k].centre + BACK[k].spread * value, BACK[k].low, BACK[k].high);
    h = BACK[k].mean + BACK[k].scale * h;
    if (BACK[k].how == LOG)
        h = exp(h);
    if (BACK[k].how == YEO_JOHNSON)
        h = h > 0 ? unbox(h, BACK[k].power) : -unbox(-h, 2 - BACK[k].power);
    if (BACK[k].how == QUANTILE)
        h = curve(CURVES + BACK[k].first, BACK[k].count, h);
    return BACK[k].unit * h;
}
@END@
void @NAME@_decision(const @NAME@_cell *x, double *out)
{
    real row[FEATURES], value[OUTPUTS];
    encode(x, row);
    values_of(row, value);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = @IF_NOT_LABELS@prediction(k, (double)value[k])@END@@IF_LABELS@(double)value[k]@END@;
}
@IF_CHANCES@
void @NAME@_probabilities(const @NAME@_cell *x, double *out)
{
    double value[OUTPUTS], most = 0, total = 0;
    @NAME@_decision(x, value);
    out[0] = 0;
    for (int k = 0; k < OUTPUTS; k++) {
        const double chance = cut((1 + value[k]) / 2, @LEAST@, 1 - @LEAST@);
@IF_BINARY@        out[1] = @SLOPE@ * value[k] + @BEND@ * (log(chance) - log1p(-chance));
@END@@IF_NOT_BINARY@        out[k] = @SLOPE@ * value[k] + @BEND@ * log(chance);
@END@    }
    for (int k = 0; k < CLASSES; k++)
        most = k == 0 || out[k] > most ? out[k] : most;
    for (int k = 0; k < CLASSES; k++)
        total += out[k] = exp(out[k] - most);
    for (int k = 0; k < CLASSES; k++)
        out[k] /= total;
}
@END@
