"""A participant and its folder: killed anywhere it stands where it stood, and tells nothing twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_connectors.edge.keyfile import load_key
from culm_connectors.sds.errors import StateError
from culm_connectors.sds.participants.client import EventPosition
from culm_connectors.sds.participants.participant import Participant, ParticipantStep
from culm_connectors.sds.participants.state import StateFolder
from culm_models.sds.errors import EmptyContentError
from culm_models.sds.settings import SdsSettings
from tests.support.freeze import frozen, stores
from tests.support.p2panda.logs import author
from tests.support.sds.edge import message

START_MS = 1_700_000_000_000


def opened(
    path: Path, name: str = "alice", *, now_ms: int = START_MS, sds: SdsSettings | None = None
) -> tuple[StateFolder, Participant]:
    folder = StateFolder(path, durable=False)
    try:
        made = Participant(
            folder, "room", "spec", name, settings=sds, now_ms=now_ms, seed=name.encode().ljust(32, b"-")
        )
    except BaseException:
        folder.close()
        raise
    return folder, made


def nonce(number: int) -> bytes:
    return number.to_bytes(16, "big")


def state(participant: Participant) -> tuple[bytes, bytes]:
    return participant._channel.journal_whole(), participant._channel.head()


def test_a_new_participant_that_is_killed_at_once_is_the_same_again(tmp_path: Path) -> None:
    folder, first = opened(tmp_path)
    before = state(first)
    folder.close()
    folder, again = opened(tmp_path, now_ms=START_MS + 99)
    with folder:
        assert state(again) == before


def test_a_restart_stands_where_the_process_stood_and_says_the_same_bytes(tmp_path: Path) -> None:
    kept, alice = opened(tmp_path / "kept")
    killed, twin = opened(tmp_path / "killed")
    now_ms = START_MS
    for number in range(60):
        now_ms += 1_700
        wire = alice.send(b"hello %d" % number, now_ms, nonce(number))
        other = twin.send(b"hello %d" % number, now_ms, nonce(number))
        assert wire == other
        for participant in (alice, twin):
            participant.tick(now_ms)
            participant.commit()
        if number % 7 == 0:
            killed.close()
            killed, twin = opened(tmp_path / "killed", now_ms=now_ms)
            assert twin.logged_before == number + 1
        assert state(twin) == state(alice)
    for folder in (kept, killed):
        folder.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            ["say", "hear", "tick", "head", "again", "clock", "reached", "withdraw", "kill", "snapshot"]
        ),
        max_size=25,
    ),
    st.integers(0, 2**32),
)
def test_kills_between_any_steps_change_nothing(tmp_path: Path, steps: list[str], seed: int) -> None:
    for name in ("kept", "killed", "bob"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    folders = {}
    kept, alice = opened(tmp_path / "kept")
    folders["killed"], twin = opened(tmp_path / "killed")
    bob_folder, bob = opened(tmp_path / "bob", "bob")
    now_ms, numbers = START_MS, []
    for count, kind in enumerate(steps):
        now_ms += 1 + (seed >> count % 24) % 60_000
        if kind == "hear":
            wire = bob.send(b"from bob", now_ms, nonce(count)).output.send[0].wire
        if kind == "kill":
            folders["killed"].close()
            folders["killed"], twin = opened(tmp_path / "killed", now_ms=now_ms)
        caused: list[ParticipantStep] = []
        for participant in (alice, twin):
            match kind:
                case "say":
                    caused.append(participant.send(b"hello", now_ms, nonce(count)))
                case "hear":
                    caused.append(participant.receive(wire, now_ms))
                case "tick":
                    caused.append(participant.tick(now_ms))
                case "head":
                    caused.append(participant.compare_head([(now_ms, f"unknown {count}")], now_ms))
                case "again":
                    waiting = [message.message_id for message in participant.status().outgoing]
                    caused.append(participant.say_again(waiting, now_ms))
                case "clock":
                    caused.append(participant.set_clock(now_ms, now_ms + seed % 7_200_000 - 3_600_000))
                case "reached":
                    caused.append(participant.reached(now_ms))
                case "withdraw":
                    caused.append(participant.withdraw_ahead(now_ms))
                case "snapshot":
                    participant.commit()
                    participant.snapshot()
            participant.commit()
        assert len(caused) < 2 or caused[0] == caused[1]
        numbers += [logged.number for logged in caused[0].logged] if caused else []
        assert state(twin) == state(alice)
    assert numbers == list(range(1, len(numbers) + 1))
    assert [logged.number for logged in twin.history()] == numbers
    assert list(twin.history()) == list(alice.history())
    for folder in (kept, folders["killed"], bob_folder):
        folder.close()


def test_what_was_not_committed_was_never_said(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    alice.send(b"kept", START_MS, nonce(1))
    alice.commit()
    before = state(alice)
    alice.send(b"lost", START_MS + 1, nonce(2))
    folder.close()
    folder, alice = opened(tmp_path)
    with folder:
        assert state(alice) == before
        assert [logged.content for logged in alice.history()] == [b"kept"]


def test_a_record_that_was_cut_off_anywhere_is_forgotten(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path / "a")
    states = [state(alice)]
    sizes = [0]
    inputs = tmp_path / "a" / "inputs.1"
    for number in range(3):
        alice.send(b"hello", START_MS + number, nonce(number))
        alice.commit()
        states.append(state(alice))
        sizes.append(inputs.stat().st_size)
    folder.close()
    whole = inputs.read_bytes()
    for size in range(len(whole) + 1):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path / "a", copy)
        (copy / "inputs.1").write_bytes(whole[:size])
        folder, again = opened(copy)
        complete = max(index for index, end in enumerate(sizes) if end <= size)
        assert state(again) == states[complete]
        again.send(b"goes on", START_MS + 10, nonce(10))
        again.commit()
        after = state(again)
        folder.close()
        folder, again = opened(copy)
        assert state(again) == after
        folder.close()


def test_what_was_about_to_be_told_is_told_once(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    alice.send(b"one", START_MS, nonce(1))
    alice.send(b"two", START_MS, nonce(2))
    alice.commit()
    folder.close()
    file = tmp_path / "told"
    file.write_bytes(file.read_bytes()[:-5])
    folder, alice = opened(tmp_path)
    assert (alice.logged_before, [logged.content for logged in alice.history()]) == (1, [b"one", b"two"])
    folder.close()
    folder, alice = opened(tmp_path)
    with folder:
        assert alice.logged_before == 2
        assert [logged.content for logged in alice.history(1)] == [b"two"]


def test_a_snapshot_takes_the_place_of_many_inputs(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    for number in range(40):
        alice.send(bytes(300_000), START_MS + number, nonce(number))
        alice.commit()
    before = state(alice)
    folder.close()
    (inputs,) = tmp_path.glob("inputs.*")
    assert inputs.name != "inputs.1" and inputs.stat().st_size < 12_000_000
    folder, alice = opened(tmp_path)
    with folder:
        assert state(alice) == before
        assert len(list(alice.history())) == 40


def test_a_refused_message_leaves_no_trace(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    before = state(alice)
    with pytest.raises(EmptyContentError):
        alice.send(b"", START_MS, nonce(1))
    alice.commit()
    folder.close()
    folder, alice = opened(tmp_path)
    with folder:
        assert state(alice) == before


def test_ephemeral_messages_are_stored_nowhere(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    with folder:
        sizes = sum(file.stat().st_size for file in tmp_path.iterdir())
        step = alice.send(b"secret word", START_MS, nonce(1), ephemeral=True)
        alice.commit()
        assert (step.output.send[0].kind, step.logged) == ("ephemeral", ())
        heard = alice.receive(message("bob", "m1", None, content=b"another"), START_MS)
        assert [event.kind for event in heard.output.events] == ["received", "delivered"]
        assert heard.logged == ()
        alice.commit()
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) == sizes


def test_other_settings_are_in_force_after_a_restart(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    for number in range(20):
        alice.send(b"hello", START_MS + number, nonce(number))
    alice.commit()
    log = alice.status().log
    folder.close()
    for _ in range(2):
        folder, alice = opened(tmp_path, sds=SdsSettings(causal_history_size=3))
        assert alice.status().log == log
        folder.close()
    folder, alice = opened(tmp_path)
    with folder:
        assert alice._settings.causal_history_size == 3


def test_a_folder_in_use_belongs_to_its_process(tmp_path: Path) -> None:
    folder, _ = opened(tmp_path)
    with folder, pytest.raises(StateError):
        opened(tmp_path)


def test_the_folder_of_another_participant_is_refused(tmp_path: Path) -> None:
    folder, _ = opened(tmp_path)
    folder.close()
    with pytest.raises(StateError):
        opened(tmp_path, "bob")


@pytest.mark.parametrize("offset", [0, 5, 40, -1])
def test_a_damaged_snapshot_is_refused(tmp_path: Path, offset: int) -> None:
    folder, _ = opened(tmp_path)
    folder.close()
    snapshot = bytearray((tmp_path / "snapshot").read_bytes())
    snapshot[offset] ^= 0x55
    (tmp_path / "snapshot").write_bytes(snapshot)
    with pytest.raises(StateError):
        opened(tmp_path)


def test_time_that_goes_back_is_not_followed(tmp_path: Path) -> None:
    folder, alice = opened(tmp_path)
    with folder:
        alice.send(b"hello", START_MS + 5_000, nonce(1))
        alice.send(b"hello", START_MS, nonce(2))
        lamports = [lamport for lamport, _ in alice.status().log]
        assert lamports == [START_MS + 5_000, START_MS + 5_001]
        assert [logged.time_ms for logged in alice.history()] == []
        alice.commit()
        assert [logged.time_ms for logged in alice.history()] == [START_MS + 5_000] * 2


def test_kept_participants_go_on_with_the_same_bytes(tmp_path: Path) -> None:
    home = frozen.unpack("participants", tmp_path)
    frozen.assert_as_kept("participants", stores.read_participants(home))


def test_the_key_of_a_kept_home_and_the_place_of_its_client_are_found(tmp_path: Path) -> None:
    home = frozen.unpack("participants", tmp_path)
    assert load_key(home).public_key == author("ann of the channels").public_key
    assert stores.place(home) == EventPosition(17, b"cursor")
