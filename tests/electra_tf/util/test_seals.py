"""Checksums within JSON files."""

import json

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.seals import SEAL, sealed, without_seal

CONTENT = {"step": 3, "by_number": {1: 0.25}, "shape": (2, 3), "name": "é"}


def test_a_changed_digit_is_noticed():
    text = json.dumps(sealed(CONTENT), indent=1)
    read = json.loads(text)
    assert without_seal(read, "f.json") == {
        "step": 3,
        "by_number": {"1": 0.25},
        "shape": [2, 3],
        "name": "é",
    }
    with pytest.raises(UserError, match=r"^f\.json has changed since it was written"):
        without_seal(json.loads(text.replace("0.25", "0.26")), "f.json")


def test_files_of_older_versions_and_edited_ones_have_none():
    assert without_seal({"step": 4}, "f.json") == {"step": 4}
    edited = {**sealed(CONTENT), "step": 4}
    del edited[SEAL]
    assert without_seal(edited, "f.json")["step"] == 4
