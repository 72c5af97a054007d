"""The numbers that the paper prints (Maruf & Haffari, ACL 2018), to stand beside ours."""

from wholedoc.rendering.tables import Cell, Row, Table

_TESTS = ("Fr→En", "De→En NC-11", "De→En NC-16", "Et→En")
_PAIRS = ("Fr→En", "De→En", "Et→En")


def _row(label: str, numbers: str) -> Row:
    return Row(label, tuple(Cell(number) for number in numbers.split()))


def _both(metrics: tuple[str, ...], corpora: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{metric} {corpus}" for metric in metrics for corpus in corpora)


def _printed(columns: tuple[str, ...], rows: tuple[Row, ...], caption: str = "") -> Table:
    return Table("", caption, tuple(("", column) for column in columns), rows)


_BLEU_METEOR = ("BLEU", "METEOR")

TABLE_1 = _printed(
    ("documents (×100)", "sentences (×1000)", "sentences per document", "src/trg vocabulary (k)"),
    (
        _row("Fr-En", "10/1.2/1.5 123/15/19 123/128/124 25.1/21"),
        _row("Et-En", "150/10/18 209/14/25 14/14/14 48.6/24.9"),
        _row("De-En", "49/.9/1.1/1.6 191/2/3/3 39/23/27/19 45.1/34.7"),
    ),
    "train/dev/test; De-En has two test sets",
)
TABLE_2_CONTEXT = _printed(
    _both(_BLEU_METEOR, _TESTS),
    (
        _row("S-NMT", "20.85 5.24 9.18 20.42 23.27 10.90 14.35 24.65"),
        _row("+src", "21.91† 6.26† 10.20† 22.10† 24.04† 11.52† 15.45† 25.92†"),
        _row("+trg", "21.74† 6.24† 9.97† 21.94† 23.98† 11.58† 15.32† 25.89†"),
        _row("+both", "22.00† 6.57† 10.54† 22.32† 24.40† 12.24† 16.18† 26.34†"),
    ),
    "Memory-to-Context",
)
TABLE_2_OUTPUT = _printed(
    _both(_BLEU_METEOR, _TESTS),
    (
        _row("S-NMT", "20.85 5.24 9.18 20.42 23.27 10.90 14.35 24.65"),
        _row("+src", "21.80† 6.10† 9.98† 21.50† 23.99† 11.53† 15.29† 25.44†"),
        _row("+trg", "21.76† 6.31† 10.04† 21.82† 24.06† 12.10† 15.75† 25.93†"),
        _row("+both", "21.77† 6.20† 10.23† 22.20† 24.27† 11.84† 15.82† 26.10†"),
    ),
    "Memory-to-Output",
)
TABLE_3 = _printed(
    _both(("Memory-to-Context", "Memory-to-Output"), _PAIRS),
    (
        _row("S-NMT", "42.5 66.8 58.4 42.5 66.8 58.5"),
        _row("+src mem", "48.8 73.1 64.8 68.7 107.1 88.7"),
        _row("+trg mem", "43.8 68.1 59.8 53.8 85.1 71.8"),
        _row("+both mems", "50.1 74.4 66.1 80 125.4 102"),
    ),
    "millions",
)
TABLE_4 = _printed(
    _both(_BLEU_METEOR, _TESTS),
    (
        _row("Jean et al. (2017)", "21.95 6.04 10.26 21.67 24.10 11.61 15.56 25.77"),
        _row("Wang et al. (2017)", "21.87 5.49 10.14 22.06 24.13 11.05 15.20 26.00"),
        _row("S-NMT", "20.85 5.24 9.18 20.42 23.27 10.90 14.35 24.65"),
        _row("+src mem", "21.91† 6.26♣ 10.20 22.10♠ 24.04† 11.52♣ 15.45♣ 25.92♠"),
        _row("+both mems", "22.00† 6.57♦ 10.54♣ 22.32♦ 24.40♦ 12.24♦ 16.18♦ 26.34♦"),
    ),
)
TABLE_5 = _printed(
    _both(("BLEU-1",), _TESTS),
    (
        _row("Jean et al. (2017)", "52.8 30.6 39.2 51.9"),
        _row("Wang et al. (2017)", "52.6 28.2 38.3 52.3"),
        _row("S-NMT", "51.4 28.7 36.9 50.4"),
        _row("+src mem", "53.0 30.5 39.1 52.6"),
        _row("+both mems", "53.5 33.1 41.3 53.2"),
    ),
)
TABLE_6 = _printed(
    _both(_BLEU_METEOR, _PAIRS),
    (
        _row("S-NMT", "20.85 5.24 20.42 23.27 10.90 24.65"),
        _row("+prev trg", "21.75 5.93 22.08 24.03 11.40 25.94"),
        _row("+trg mem", "21.74 6.24 21.94 23.98 11.58 25.89"),
    ),
)
FIGURE_3 = _printed(
    _both(("Memory-to-Context", "Memory-to-Output"), ("smaller", "larger")),
    (
        _row("S-NMT", "10.90 12.12 10.90 12.12"),
        _row("S-NMT+src", "11.52 12.94 11.53 12.48"),
        _row("S-NMT+trg", "11.58 12.55 12.10 13.21"),
        _row("S-NMT+both", "12.24 13.56 11.84 12.99"),
    ),
    "METEOR, De→En NC-11; 300,000 more sentence pairs in stage 1",
)
