"""Space: the legal schedules of one program, and which of them to try first."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from candidates.record import Record

ScheduleT = TypeVar("ScheduleT", bound=Record)
Choice = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Space(Generic[ScheduleT]):
    schedule_type: type[ScheduleT]
    choices: Mapping[str, tuple[Choice, ...]]
    """Per field of the schedule that matters to this program, its values, the one to begin with first."""
    variants: tuple[Mapping[str, Choice], ...]
    """What usually decides, each as changes to the one to begin with; what does not matter here is left out."""
    is_legal: Callable[[ScheduleT], bool]
    """False also for a second spelling of another schedule."""

    def schedule(self, **changes: Any) -> ScheduleT:
        """The one to begin with, with `changes` to fields that matter."""
        return self.schedule_type(**{field: changes.get(field, values[0]) for field, values in self.choices.items()})

    def schedules(self) -> Iterator[ScheduleT]:
        """Every legal schedule once."""
        for combination in itertools.product(*self.choices.values()):
            schedule = self.schedule(**dict(zip(self.choices, combination, strict=True)))
            if self.is_legal(schedule):
                yield schedule

    def first_schedules(self) -> tuple[ScheduleT, ...]:
        """The one to begin with and a few that differ from it in everything that usually decides; at least one."""
        schedules = [
            self.schedule(**{field: value for field, value in each.items() if value in self.choices.get(field, ())})
            for each in self.variants
        ]
        legal = dict.fromkeys(schedule for schedule in schedules if self.is_legal(schedule))
        return tuple(legal) or tuple(itertools.islice(self.schedules(), 1))


def values_of(schedule_type: type[Record], field: str) -> tuple[Choice, ...]:
    """All values of a field, the default first."""
    default: Any = schedule_type.model_fields[field].default
    values: tuple[Choice, ...] = get_args(schedule_type.model_fields[field].annotation)
    return (default, *(value for value in values if value != default))
