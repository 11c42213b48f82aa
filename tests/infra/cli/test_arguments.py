"""Arguments are heeded or refused: none ends in a traceback, and none is ignored in silence."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from culm_infra.cli.job import job_settings
from culm_infra.protocols import JOB_FLAGS
from culm_infra.settings import load
from culm_topics.catalogue import registry
from tests.support.process.argument_fuzz import (
    KEY,
    Command,
    close_the_world,
    commands,
    furnish,
    large_numbers,
    lines,
    run,
)

Reals = Mapping[str, str]
BOTH = ("once", pytest.param("soak", marks=pytest.mark.soak))
COUNTS = {"once": 2, "soak": 100}


@pytest.fixture(scope="module")
def reals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reals]:
    """A home of its own, and files that arguments name in the working directory."""
    home = tmp_path_factory.mktemp("home")
    work = tmp_path_factory.mktemp("work")
    (home / "culm.toml").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        for name in [variable for variable in os.environ if variable.startswith("CULM_")]:
            patch.delenv(name)
        for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home))
        patch.setenv("CULM_CONFIG", str(home / "culm.toml"))
        patch.setenv("CULM_STACK__DIRECTORY", str(home / "stack"))
        patch.setattr(tempfile, "tempdir", str(home))
        patch.chdir(work)
        close_the_world(patch)
        yield furnish(work)


@pytest.mark.parametrize("how_many", BOTH)
def test_no_arguments_end_in_a_traceback(reals: Reals, how_many: str) -> None:
    statuses = {"reached": 0, "refused": 0, "other": 0}
    for command in commands():
        for line in lines(command, reals, seed=COUNTS[how_many], count=COUNTS[how_many]):
            try:
                status, _, err = run(line, b"x\n")
            except Exception as error:
                raise AssertionError(f"{line}: {error!r}"[:2_000]) from error
            assert "Traceback" not in err, line
            what = "reached" if "test.reached" in err else "refused" if status == 2 else "other"
            statuses[what] += 1
    assert min(statuses.values()) > 20, "the lines are no longer a mixture of right and wrong ones"


def test_a_number_that_is_too_large_is_no_traceback(reals: Reals) -> None:
    for command in commands():
        for line in large_numbers(command, reals):
            try:
                run(line, b"x\n")
            except Exception as error:
                raise AssertionError(f"{line}: {error!r}"[:2_000]) from error


def test_an_option_that_takes_one_value_is_refused_when_it_is_given_twice(reals: Reals) -> None:
    for command in commands():
        single = [parameter for parameter in command.parameters if _takes_one_value(parameter)]
        for option in single[:1]:
            twice = [option.opts[0], *["1"] * option.nargs] * 2
            status, _, err = run([*command.words, *twice])
            assert (status, "given twice" in err) == (2, True), command.words


def _takes_one_value(parameter: object) -> bool:
    multiple, is_flag = getattr(parameter, "multiple", True), getattr(parameter, "is_flag", True)
    return getattr(parameter, "param_type_name", "") == "option" and not multiple and not is_flag


REFUSED = [
    "demo --peers 4 sds",
    "demo bamboo --scene storm",
    "demo dag --proof-policy none",
    "stack up --property a=1 --property a=2",
    "topics acls --json --as script",
    "topics acls --strimzi-cluster x",
    "topics acls --program job --principal connector=User:x",
    "topics acls --principal job=User:x --principal job=User:y",
    "topics create --strimzi-cluster x",
    "topics create --as strimzi --json",
    "topics create --as strimzi --bootstrap 127.0.0.1:1",
    "topics create --as strimzi --timeout 5",
    "topics list --kafka-option a=1 --kafka-option a=2",
    "job run dag --sds-max-offsets 5",
    "job run --sds-interval-ms 5",
    "job run sds --block-bits 5",
    "job run dag --verify chain",
    "job run --once --interval-ms 5",
    "job run --metrics-host 127.0.0.1",
    "connector run --metrics-host 127.0.0.1",
    "connector run --sync-mode heights --latency",
    "logs blocks --block 1 --each",
    "p2panda peer publish create a=1 a=2 --schema blob_v1",
    "p2panda peer publish delete a=1 --schema blob_v1 --document OPERATION",
    "p2panda peer publish delete --file a=file --schema blob_v1 --document OPERATION",
    f"p2panda peer show {KEY}/18446744073709551616",
    "p2panda peer sync 127.0.0.1:1 --sync-mode heights --latency",
    "p2panda peer sync 127.0.0.1:1 --schema x",
    "p2panda documents list --dir peer --bootstrap 127.0.0.1:1",
    "p2panda documents show OPERATION --dir peer --timeout 5",
    "p2panda documents show 0020ff --bootstrap 127.0.0.1:1",
    "p2panda documents blob 0020ff --bootstrap 127.0.0.1:1",
    "p2panda documents watch --from 2h",
    "p2panda documents watch --from 17",
    "sds join general 127.0.0.1:1 --hosted --tail 3",
    "sds join general 127.0.0.1:1 --from now",
    "sds send general hello --edge 127.0.0.1:1 --participant ",
    f"sds transfer general {KEY} --participant ",
    "sds send general hello --edge 127.0.0.1:1 --wait --ephemeral",
    "sds tail general --from now --tail 3",
    "sds tail general --from ",
    "sds tail general --from 0:3",
    "sds join general 127.0.0.1:1 --hosted --from 12x",
    "logs tail --from end",
    "rejected tail --from 12x",
    "rejected show 17",
    "rejected replay",
    "rejected replay --from 1h",
    "rejected replay 0:1 --code bamboo",
    "sds fetch general x --output new --json",
    "chotki class --rename a=b",
    "chotki class person --owner me",
    "chotki class person a:S a:I",
    "chotki class person --rename a=b --rename a=c",
    "chotki new person a=1 a=2",
    "chotki edit person a=1 a+=2",
    "chotki edit person a=1 --owner ",
    "chotki edit person a=1 --source 0x1e",
    "chotki dump --dir x",
    "chotki dump tcp://127.0.0.1:1 --bootstrap 127.0.0.1:1",
    "chotki verify tcp://127.0.0.1:1 --json --fields 3",
    "bamboo publish x --log-id 18446744073709551616",
    "bamboo status --log 18446744073709551616",
    "bamboo publish x --flavour ",
    "bamboo decode file --flavour ",
    "bamboo sync tcp://127.0.0.1:1 --live --idle 3",
    "bamboo sync tcp://127.0.0.1:1 --live --dry-run",
    "bamboo sync tcp://127.0.0.1:1 --sizes",
    "bamboo sync tcp://127.0.0.1:1 --first 3 --last 2",
    "bamboo sync tcp://127.0.0.1:1 --min-size 3 --max-size 2",
    "bamboo sync tcp://127.0.0.1:1 --log x",
    "bamboo sync peer",
    "bamboo sync http://peer:4400",
    "bamboo sync 127.0.0.1:1 --progress",
    "bamboo export --json --dir logs",
    "bamboo verify 1 --log abc",
    "bamboo sync tcp://127.0.0.1:1 --tls-name x",
    "bamboo sync tls://127.0.0.1:1 --tls-key file",
    "bamboo serve tcp://127.0.0.1:1 --tls-ca file",
    "bamboo serve tcp://127.0.0.1:1 --log x",
    "bamboo resume --all --log 0",
    "bamboo drop --first 3 --last 2",
    "bamboo export -o new --first 3 --last 2",
    "dag put folder --codec dag-cbor",
    "dag put file --codec raw --unixfs-profile unixfs-v1-2025",
    "dag put file --hidden",
    "dag put file --space abc",
    "dag drop abc",
    "dag delegate did:web:x",
    "dag sync nowhere",
    "dag status --proof-policy none",
    "dag resolve @ --dir dags",
    f"dag resolve {KEY}@ --dir dags",
    "dag resolve  --dir dags",
    "dag export -o new --bootstrap 127.0.0.1:1",
    "dag export -o new --kafka --dir dags",
    "dag import folder --kafka --proof-policy bearer",
    "dag drop CID --lift --reason x",
    "dag drop CID --prefix x",
    "dag collect --kafka --dir dags",
    f"dag collect --keep-publishes-of {KEY}=1 --keep-publishes-of {KEY}=2",
    "dag sync tcp://127.0.0.1:1",
    "dag get CID -o - --json --dir dags",
    "dag export --dir dags",
    "dag export --root CID --json --dir dags",
    "dag serve quic://127.0.0.1:1 --http",
    "dag serve https://127.0.0.1:1",
    "dag serve 127.0.0.1:1 --writable",
    "dag serve 127.0.0.1:1 --http --space KEY",
    "conform --json",
    "conform --list --big-ints-as-text",
]
"""Lines with an argument that has no effect, or that cannot be right; words stand one space apart."""


@pytest.mark.parametrize("line", REFUSED)
def test_an_argument_that_would_be_ignored_is_refused(reals: Reals, line: str) -> None:
    words = [reals.get(word, word) for word in line.split(" ")]
    status, _, err = run(words)
    assert status in (1, 2), err
    assert "error" in err.lower()
    assert "test.reached" not in err


@pytest.mark.parametrize("flag", JOB_FLAGS)
def test_a_flag_of_the_jobs_is_heeded_by_those_that_the_table_names(flag: str) -> None:
    tree: dict[str, Any] = {
        "verify": {"job": {"verify": "chain"}},
        "shards": {"job": {"shards": 3}},
        "block_bits": {"block_bits": 3},
        "max_offsets": {"job": {"max_offsets_per_trigger": 3}},
        "sds_max_offsets": {"job": {"sds": {"max_offsets_per_trigger": 3}}},
        "sds_interval_ms": {"job": {"sds": {"interval_ms": 3}}},
        "sds_cache_entries": {"job": {"sds": {"cache_entries": 3}}},
    }
    default, changed = load(), load(**tree[flag])
    names = [job.name for job in registry.JOBS]
    heeding = [
        name for name in names if job_settings(default, (name,))[name] != job_settings(changed, (name,))[name]
    ]
    assert heeding == list(JOB_FLAGS[flag])


def test_all_commands_are_there() -> None:
    all_commands: tuple[Command, ...] = commands()
    assert len(all_commands) >= 84
