"""Options that go together, as one parameter of a command: a dataclass whose fields are the options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from culm_infra.cli import options

if TYPE_CHECKING:
    from culm_topics.kafka import KafkaSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFlags:
    """Which Kafka a command talks to."""

    bootstrap: options.Bootstrap = None
    prefix: options.Prefix = None
    kafka_option: options.KafkaOption = None

    def settings(self, **flags: Any) -> KafkaSettings:
        """The Kafka that these flags, further ones, the environment and the file name together.

        Raises SettingsError.
        """
        from culm_infra.settings import kafka_from_flags

        return kafka_from_flags(
            bootstrap=self.bootstrap, prefix=self.prefix, kafka_option=self.kafka_option, **flags
        )


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: Typer sees their fields, the command gets the dataclass.

    Goes below ``@app.command()``. Every field is an option, so it has a default.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    group_types: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint) and isinstance(hint, type):
            group_types[parameter.name] = hint
            parameters += _options_of(hint)
        else:
            parameters.append(parameter.replace(annotation=hint))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group_type in group_types.items():
            given[name] = group_type(**{field.name: given.pop(field.name) for field in fields(group_type)})
        command(**given)

    positional = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    run.__signature__ = inspect.Signature([*positional, *named])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _options_of(group_type: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group_type, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group_type)
    ]
