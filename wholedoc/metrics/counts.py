"""What measures give back: counts that add up, rates computed from their sums, rows for a table."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self


class Row(NamedTuple):
    """One line of a table."""

    key: str
    """For programs."""
    value: float | None
    """None where there was nothing to count."""
    label: str
    """For people."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Whole numbers, or further counts, that add up over documents."""

    def __add__(self, other: Self) -> Self:
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return type(self)(*(one + another for one, another in pairs))

    def rates(self) -> dict[str, float | None]:
        """What is computed from the counts; None where there was nothing to count."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """The counts, then the rates, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **{
                name: value.to_json() if isinstance(value, Counts) else value
                for name, value in values.items()
            },
            **self.rates(),
        }


def share(part: int, whole: int) -> float | None:
    """part / whole; None where ``whole`` is 0."""
    return part / whole if whole else None
