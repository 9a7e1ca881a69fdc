"""Sentences of the library and what pages say instead, as patterns; `spoken` reads them from the top."""

from __future__ import annotations

# What is said where no other sentence is known.
GENERAL = "this cannot be done as it stands: a number or a name in the form is not one that can be computed with"

# What the library says, what a page says, and the field that it is about: a name of the form, or none.
SAID: tuple[tuple[str, str, str], ...] = (
    (
        r"^(.*): not an \.npy file of plain numbers.*",
        r"\1 is not a file of plain numbers",
        "table",
    ),
    (r"^.*: (holds .* and no text), .*", r"the file \1: choose another one", "table"),
    (
        r"^between must be a range.*",
        "“At most” must lie above “At least”",
        "order.high",
    ),
    (
        r"^columns? (.+?) (?:is|are) missing or not unique; the table has (.+)$",
        r"the table has no column \1. It has \2",
        "",
    ),
    (
        r"^column '(.+?)' must hold dates with times.*",
        r"the column “\1” holds days without a clock: ask for every month or day of the week",
        "order.by",
    ),
    (
        r"^column '(.+?)' must hold (.+?); its type is .*",
        r"the column “\1” must hold \2",
        "",
    ),
    (
        r"^without a label column, classes.*",
        "without a column of labels, say in “Classes” how many clusters to look for: a whole number",
        "order.classes",
    ),
    (
        r"^classes must be .*",
        "list the classes, each once, separated by commas: they are public and never looked up",
        "order.classes",
    ),
    (
        r"^name the two labels.*",
        "name the two labels, separated by a comma: they are public and never looked up",
        "order.classes",
    ),
    (
        r"^unit and rows_per_unit must be given together.*",
        "fill in both “Whom to hide” and “Rows used of each” (1 where each has one row), or neither",
        "order.rows_per_unit",
    ),
    (
        r"^epsilon and delta allow a mean.*|.*must be smaller, or epsilon and delta larger.*|^the draws would spend.*",
        "so small an epsilon leaves no noise that suffices: raise it",
        "order.epsilon",
    ),
    (
        r"^event's duration must be .*",
        "the hidden event's duration must be a time such as 30min, 1h or 2d",
        "order.event_duration",
    ),
    (r"^event's size must be .*", "the hidden event must be larger", "order.event_kw"),
    (
        r"^sample_period must be .*",
        "the sample period must be a time such as 5min, 1h or 2d",
        "order.sample_period",
    ),
    (
        r"^horizon must be .*",
        "the horizon must be a time such as 45min, 3h or 1d",
        "order.horizon",
    ),
    (
        r"^time_zone must be .*",
        "the time zone must be a name such as Europe/Zurich",
        "order.time_zone",
    ),
    (
        r"^kernel must be .*",
        "so small or large a scale cannot be computed with: give lengths and sizes between 0.000001 and 1000000",
        "order.smooth_over",
    ),
    (
        r"^nothing would show.*",
        "of so many, no value would be frequent enough to show: raise epsilon, or list the values",
        "order.epsilon",
    ),
    (r"^an account that is kept for people pays.*", r"\g<0>", "order.people"),
    (
        r"^periods need a column of times.*",
        r"\g<0>: hide everything of each",
        "order.period",
    ),
    (r"^observation_variance must be .*", "“Scatter” must be larger", "order.scatter"),
    (
        r"^the table could not be read \(\w+\).*",
        "the table cannot be read: check that it is whole, and of the kind that its name says",
        "table",
    ),
    (
        r"^grid must lie between .*",
        "so small or large a bound cannot be computed with: measure in another unit",
        "",
    ),
    (
        r"^which is yours must be .*",
        "“Which is yours” must be one of the table's labels",
        "order.secret",
    ),
    (
        r"^name the household .*",
        "name the home whose forecast to release",
        "order.home",
    ),
    (
        r"^choose the column of numbers to answer about.*",
        "choose the column of numbers to answer about",
        "order.column",
    ),
    (
        r"^choose the column to group by.*",
        "choose the column to group by, or one number for all together",
        "order.by_column",
    ),
    (
        r"^list the values to group by.*",
        "list the values to group by: they are public, so they are never looked up",
        "order.by_values",
    ),
    (
        r"^say between which bounds.*",
        "say between which bounds a value lies; they must be known without the data",
        "order.low",
    ),
    (
        r"^give both bounds of what is explained.*",
        "give both bounds of what is explained, or none",
        "order.high",
    ),
    (r"^whom to hide .*", r"\g<0>", "order.unit"),
    (r"^choose a table.*", "choose a table, or upload one", "table"),
    (r"^choose the column of readings.*", r"\g<0>", "order.reading"),
    (r"^choose the column that names the home.*", r"\g<0>", "order.unit"),
    (r"^the table has no column of times.*", r"\g<0>", "order.time"),
    (r"^choose at least one column of numbers.*", r"\g<0>", "order.columns"),
    (
        r"^.*(a CSV file must name|not a table of that format|not an Excel file|the first line of a CSV file).*",
        r"\g<0>",
        "table",
    ),
    (
        r"^.*must be a range.*",
        "the upper bound must lie above the lower one",
        "order.high",
    ),
    (
        r"^(?:the )?(.*household's cluster must hold).*",
        "the home's cluster holds fewer than two homes, or there is nobody to hide among: ask for fewer clusters",
        "order.clusters",
    ),
    (
        r"^clusters must be .*",
        "there are fewer homes than clusters, or too few for so many: ask for fewer",
        "order.clusters",
    ),
    (
        r"^home must be one of .*|^.*households asked for are not among.*",
        "the table has no home of that name",
        "order.home",
    ),
    (
        r"^.*(?:gap|reading missing|without a reading).*",
        "readings are missing: say below how to fill them",
        "order.gaps",
    ),
    (
        r"^.*has no reading at all.*",
        "one of the homes has no reading at all: leave it out of the table",
        "table",
    ),
    (
        r"^the model 'random past'.*",
        "with “random past” every release needs newer readings: choose “past known”, or wait",
        "order.past",
    ),
    (
        r"^(.*?)(?:, line (\d+))?: every cell must be a number.*",
        r"\1 must hold numbers alone, under one line of names: leave columns of text and times out",
        "table",
    ),
    (r"^.*: holds no numbers$", "the table holds no numbers", "table"),
    (
        r"^a vector is read from one file that ends in (.*)",
        r"such numbers are read from one file that ends in \1",
        "table",
    ),
    (r"^.*must hold one row for each label.*", r"\g<0>", "table"),
    (
        r"^about (\d+) rows are too few to learn the range of (.+?): with (\d+) all are found.*",
        r"about \1 rows are too few to learn the ranges of “\2”: about \3 would do; or take fewer columns",
        "order.rows",
    ),
    (
        r"^a certificate must be JSON.*",
        "this is no certificate, or not all of it: choose another file",
        "",
    ),
    (r"^the table has no rows.*", "the table has no rows", "table"),
    (
        r"^.*codec can't decode.*",
        "the file is written in characters that cannot be read: save it as CSV UTF-8",
        "table",
    ),
    (
        r"^the account (.+?) is kept for neighbours where .*",
        r"the account \1 is kept for releases that hide something else: choose another account, or open one",
        "account",
    ),
    (
        r"^there is no ledger .*",
        "there are no accounts yet: open one on the page Accounts",
        "account",
    ),
    (
        r"^start the studio with --signing-key.*",
        "the studio was started without a key to sign with: see its page in the docs",
        "",
    ),
    (
        r"^the task took longer than (\S+) seconds.*",
        r"this takes longer than \1 seconds and was ended; nothing was spent: "
        "take fewer columns, groups or homes",
        "",
    ),
)

# What is taken out of every sentence, or written otherwise.
CLEARED = (
    (r"\s*\((?:--|in Python|gaussveil |people=)[^)]*\)", ""),
    (r",? ?\(?(?:people=[^,;.]*|or gaussveil [^;.)]*)\)?", ""),
    (
        r"; of a long table name the column of households$",
        ": choose the column that names the home",
    ),
    (r"\.?\s*Got [^.]*(?:\.[^.\s][^.]*)*\.?$", ""),
    (r"`", ""),
    (r"\blarger sampler_share\b", "larger delta"),
    (r"(?<!\w)'([^']*)'(?!\w)", r"“\1”"),
    (r"\b(\d)e-0(\d)", r"\1e-\2"),
)
