"""Settings: what freetrain tells of its own accord: metrics, notices, logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Address, Duration, NetworkList, Period, Words


class Metrics(Section):
    """Where Prometheus finds freetrain's own metrics."""

    textfile: Annotated[
        str,
        Field(
            description="File that is written after each look, for node_exporter's textfile collector, as "
            "/var/lib/node_exporter/freetrain.prom; empty: none."
        ),
    ] = ""
    listen: Annotated[
        Address,
        Field(description="Address and port on which GET /metrics is answered, as 127.0.0.1:9810; empty: none."),
    ] = ""
    allow: Annotated[
        NetworkList,
        Field(
            description='Who is answered there: addresses and networks, as "127.0.0.0/8,::1,10.1.0.0/16"; anybody '
            "else is refused. By default this machine alone."
        ),
    ] = "127.0.0.0/8,::1"


class Notify(Section):
    """Whom freetrain tells of its own accord what happened."""

    command: Annotated[
        Words,
        Field(
            description="Command that is run, without a shell, when a job of the site had to wait for fragments "
            "longer than harm.limit (harm), when nothing more is lent (pause), and when a training is paused, a "
            "node lost or Slurm silent for five minutes (failure). It reads what happened on standard input, and "
            "finds the kind in FREETRAIN_KIND; empty: none."
        ),
    ] = ""
    owners_command: Annotated[
        Words,
        Field(
            description="Command that is run in the same way for the owner of a training when it is registered, "
            'finished, or paused after failures, as "/usr/sbin/sendmail -t": it reads a whole mail on standard '
            "input, and finds the kind in FREETRAIN_KIND and the owner in FREETRAIN_OWNER; empty: none."
        ),
    ] = ""
    templates: Annotated[
        str,
        Field(
            description="Directory with texts of the site's own, for_admins.j2 or for_owners.j2 (Jinja); empty: "
            "freetrain's."
        ),
    ] = ""
    every: Annotated[
        Duration,
        Field(
            description="Each command runs once in this time for each kind, and owner, at most; what happens "
            "meanwhile comes with the next."
        ),
    ] = 3600.0
    timeout: Annotated[Period, Field(description="How long each may run before it is ended.")] = 30.0


Level = Literal["debug", "info", "warning", "error"]


class Log(Section):
    """How the daemon logs; its lines go to standard error, and from there to the journal."""

    format: Annotated[
        Literal["text", "json"],
        Field(description="text: lines for people; json: one object a line, for programs that collect logs."),
    ] = "text"
    level: Annotated[Level, Field(description="What is less important than this is not logged.")] = "info"
    levels: Annotated[
        dict[str, Level],
        Field(
            description='Loggers that say more or less than others, each with its level, as {"freetrain.slurm"='
            '"debug"}; what lies within one (freetrain.slurm.opening) follows it. alembic and apscheduler have '
            "warning unless they are named."
        ),
    ] = {}
