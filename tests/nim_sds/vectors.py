"""Writes tests/vectors/sds/nim-messages.json: what nim-sds makes of messages, and of bytes (see README.md).

python vectors.py DRIVER > ../vectors/sds/nim-messages.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

JS_MESSAGES = Path(__file__).parents[1] / "vectors" / "sds" / "js-messages.json"
START = "0a0169" + "1005" + "220163"
RECEIVED = {
    "smallest": START + "2a0178",
    "no content": START,
    "no message id": "1005" + "220163" + "2a0178",
    "no channel": "0a0169" + "1005" + "2a0178",
    "no timestamp": "0a0169" + "220163" + "2a0178",
    "empty ids": "0a00" + "1005" + "2200" + "2a0178",
    "empty content": START + "2a00",
    "empty filter, sender and hint": START + "2a0178" + "3200" + "3a00" + "1a050a01651200",
    "fields in any order": "2a0178" + "220163" + "1005" + "0a0169",
    "two message ids": "0a0161" + START + "2a0178",
    "two contents": START + "2a0178" + "2a0179",
    "unknown varint": START + "2a0178" + "4096" + "01",
    "unknown fixed64": START + "2a0178" + "410102030405060708",
    "unknown fixed32": START + "2a0178" + "4501020304",
    "unknown bytes": START + "2a0178" + "42020102",
    "timestamp with more bytes than needed": "0a0169" + "10858000" + "220163" + "2a0178",
    "history around other fields": START + "1a030a0164" + "2a0178" + "1a030a0165",
    "entry without id": START + "2a0178" + "1a03120107",
    "empty entry": START + "2a0178" + "1a00",
    "entry of an empty id": START + "2a0178" + "1a020a00",
    "cut in content": START + "2a0278",
    "cut in an entry": START + "2a0178" + "1a050a0165",
    "cut in a tag": START + "2a0178" + "80",
    "unknown group": START + "2a0178" + "4b4c",
    "js layout": "0a0173" + "120169" + "1a0163" + "5001" + "a2010178",
}


class Driver:
    """The running driver."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request: Any) -> dict[str, Any]:
        """What a request is answered with."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def main() -> None:
    """Write the file."""
    driver = Driver(sys.argv[1])
    encoded = []
    for row in json.loads(JS_MESSAGES.read_text())["encoded"]:
        message = row["message"]
        if int(message.get("lamport_timestamp", 1 << 63)) < 1 << 63:
            request = {"causal_history": [], "repair_request": [], **message}
            encoded.append({"name": row["name"], **driver.ask(encode=request)})
    decoded = [
        {"name": name, "bytes": data, "message": driver.ask(decode=data).get("message")}
        for name, data in RECEIVED.items()
    ]
    shown = ["[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for rows in (encoded, decoded)]
    print(f'{{"encoded": {shown[0]},\n"decoded": {shown[1]}}}')


if __name__ == "__main__":
    main()
