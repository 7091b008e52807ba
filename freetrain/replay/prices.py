"""What a site's nodes have and cost, to say what their idle time is worth."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freetrain.core.problem import first_error
from freetrain.errors import InputError

_Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Prices(BaseModel):
    """Prices of a site; what is None was not said.

    Attributes:
        currency: in which they are.
        gpus_per_node: GPUs of each node.
        watts_per_node: what a node takes that trains.
        idle_watts_per_node: what it takes without a job.
        per_kwh: price of electricity.
        per_gpu_hour: what a GPU-hour costs elsewhere.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: Annotated[str, Field(max_length=8)] = "EUR"
    gpus_per_node: _Amount | None = None
    watts_per_node: _Amount | None = None
    idle_watts_per_node: _Amount = 0.0
    per_kwh: _Amount | None = None
    per_gpu_hour: _Amount | None = None


def read_prices(path: Path) -> Prices:
    """Prices from a TOML file, in its table ``[prices]``.

    Raises:
        InputError: it cannot be read or says no prices.
    """
    hint = "etc/prices.example.toml shows the table [prices]."
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The prices in {path} cannot be read: {error.strerror}.", hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The prices in {path} are not TOML: {error}.", hint) from None
    if set(content) != {"prices"}:
        raise InputError(f"{path} has no table [prices], or others beside it.", hint)
    try:
        return Prices.model_validate(content["prices"])
    except ValidationError as error:
        raise InputError(f"The prices in {path} are wrong: {first_error(error)}.", hint) from None
