"""The jars: exact coordinates, sums that are held to, no network where nothing is missing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from culm_infra.cli.root import run
from culm_infra.stack import JarError, JarSumError, ivy, jars
from culm_infra.stack.coordinates import jar_set, table


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A cache of the test's own with Spark's jars, which are fetched once for this machine."""
    for path in jars.ensure("spark"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def no_fetch(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any fetch is an error, once this machine has the jars: this test may be the first that needs them."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise JarError("a fetch was tried")

    monkeypatch.setattr(ivy, "fetch", refuse)


@pytest.mark.parametrize("name", table())
def test_a_set_names_each_module_once(name: jars.JarSet) -> None:
    modules = [(coordinate.organisation, coordinate.module) for coordinate in jar_set(name)]
    assert len(set(modules)) == len(modules)


def test_the_same_jar_has_one_sum_in_every_set() -> None:
    sums: dict[str, str] = {}
    for name in table():
        for coordinate in jar_set(name):
            assert sums.setdefault(coordinate.file_name, coordinate.sha256) == coordinate.sha256


@pytest.mark.usefixtures("no_fetch")
def test_nothing_is_fetched_when_nothing_is_missing(copied: Path) -> None:
    assert [path.name for path in jars.ensure("spark", directory=copied)] == [
        coordinate.file_name for coordinate in jar_set("spark")
    ]


@pytest.mark.usefixtures("no_fetch")
def test_a_sum_is_computed_once(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars.ensure("spark", directory=copied)
    monkeypatch.setattr(jars, "_sha256", lambda path: pytest.fail(f"{path} was read again"))
    jars.ensure("spark", directory=copied)


@pytest.mark.usefixtures("no_fetch")
def test_a_wrong_sum_is_an_error_that_names_the_file(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = jars.ensure("spark", directory=copied)[1]
    victim.write_bytes(b"X" + victim.read_bytes()[1:])
    with pytest.raises(JarSumError, match=victim.name) as error:
        jars.ensure("spark", directory=copied)
    assert error.value.code == "jars.sum"

    monkeypatch.setenv("CULM_JARS_DIR", str(copied))
    assert run(["jars", "fetch", "--set", "spark"]) == 1
    assert run(["jars", "list", "--set", "spark", "--json"]) == 3
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    states = {row["coordinate"]: row["state"] for row in rows}
    assert sorted(states.values()) == ["present", "present", "present", "wrong sum"]


def test_a_missing_jar_comes_from_the_repository_to_several_at_once(copied: Path) -> None:
    # A mirror in a folder, laid out as every repository is: no network is needed to test the fetch itself.
    coordinate = jar_set("spark")[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CULM_MAVEN_REPOSITORY", _mirror(copied, copied / coordinate.file_name))
        (copied / coordinate.file_name).unlink()
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda _: jars.ensure("spark", directory=copied), range(2)))
    assert results[0] == results[1]
    assert all(state == "present" for _, state in jars.status("spark", directory=copied))
    assert not list(copied.glob(".fetch-*"))


def test_a_jar_that_comes_with_a_wrong_sum_is_not_kept(copied: Path) -> None:
    jar = copied / jar_set("spark")[3].file_name
    jar.write_bytes(b"not the jar")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CULM_MAVEN_REPOSITORY", _mirror(copied, jar))
        jar.unlink()
        with pytest.raises(JarSumError, match=jar.name):
            jars.ensure("spark", directory=copied)
    assert not jar.exists()


def test_a_jar_that_the_repository_does_not_have_is_named(copied: Path) -> None:
    coordinate = jar_set("spark")[3]
    (copied / coordinate.file_name).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CULM_MAVEN_REPOSITORY", (copied / "empty").as_uri() + "/")
        with pytest.raises(JarError, match=f"{coordinate.module}:{coordinate.revision}"):
            jars.ensure("spark", directory=copied)


def _mirror(folder: Path, jar: Path) -> str:
    coordinate = jar_set("spark")[3]
    directory = folder / "mirror" / coordinate.organisation.replace(".", "/") / coordinate.module
    directory = directory / coordinate.revision
    directory.mkdir(parents=True)
    (directory / coordinate.file_name).write_bytes(jar.read_bytes())
    return (folder / "mirror").as_uri() + "/"
