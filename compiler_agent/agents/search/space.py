"""Space: the legal schedules of one program, and which of them to try first."""

import itertools
import math
import random
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

    @property
    def varying(self) -> Mapping[str, tuple[Choice, ...]]:
        """The fields with a choice."""
        return {field: values for field, values in self.choices.items() if len(values) > 1}

    def point(self, schedule: ScheduleT) -> dict[str, Choice]:
        """What it chose, where there is a choice."""
        return {field: getattr(schedule, field) for field in self.varying}

    def enumerate(self, most: int) -> tuple[ScheduleT, ...]:
        """Every legal schedule once. Of a product of more than `most` choices, those among so many at random, the same
        each time, and those to try first."""
        size = math.prod(map(len, self.choices.values()))
        if size <= most:
            return tuple(self.schedules())
        places = random.Random(0).sample(range(size), most)
        some = (schedule for place in places if self.is_legal(schedule := self._at(place)))
        return tuple(dict.fromkeys((*self.first_schedules(), *some)))

    def _at(self, place: int) -> ScheduleT:
        changes: dict[str, Choice] = {}
        for field, values in self.choices.items():
            place, rest = divmod(place, len(values))
            changes[field] = values[rest]
        return self.schedule(**changes)

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
