"""What --verify finds: damage to files, counts and the manifest."""

import json

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.seals import sealed, without_seal
from pretrain_data.inspect.verification import verify_files
from pretrain_data.records.files import find_record_files
from pretrain_data.records.manifest import FILE_NAME


@pytest.fixture
def records(build, tmp_path):
    build(num_out_files=3)
    return tmp_path / "records"


def verify(records, vocabulary):
    files = find_record_files(f"{records}/*.tfrecord*")
    return verify_files(files, vocabulary.size)


def test_whole_records_are_counted(records, vocabulary):
    path = records / FILE_NAME
    manifest = without_seal(json.loads(path.read_text()), path)
    verified = verify(records, vocabulary)
    assert [each.num_records for each in verified] == list(manifest["shards"].values())
    assert [each.num_bytes for each in verified] == list(manifest["shard_bytes"].values())
    assert all(each.in_manifest for each in verified)
    (records / FILE_NAME).unlink()
    assert not any(each.in_manifest for each in verify(records, vocabulary))


def test_the_first_damaged_file_and_its_offset(records, vocabulary):
    second, third = sorted(records.glob("*.tfrecord*"))[1:]
    for path in (third, second):
        content = bytearray(path.read_bytes())
        content[30] ^= 1
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{second.name}: bad record at byte 0: the checksum"):
        verify(records, vocabulary)


def test_a_file_that_ends_between_records(records, vocabulary):
    path = sorted(records.glob("*.tfrecord*"))[0]
    content = path.read_bytes()
    size = 16 + int.from_bytes(content[:8], "little")
    path.write_bytes(content[:size])
    expected = rf"{path.name}: bad at byte {size}: the file ends after 1 whole records"
    with pytest.raises(UserError, match=expected):
        verify(records, vocabulary)


def test_files_that_the_manifest_does_not_list_or_lists_alone(records, vocabulary):
    last = sorted(records.glob("*.tfrecord*"))[-1]
    other = last.with_name("other.tfrecord")
    other.write_bytes(last.read_bytes())
    with pytest.raises(
        UserError, match=r"other.tfrecord: bad from byte 0: .* does not list it"
    ):
        verify(records, vocabulary)
    other.unlink()
    last.unlink()
    with pytest.raises(UserError, match=rf"{last.name} is missing; .*lists it with \d+"):
        verify(records, vocabulary)


def test_other_records_of_the_same_number_and_size(records, vocabulary):
    path = sorted(records.glob("*.tfrecord*"))[1]
    content = path.read_bytes()
    size = 16 + int.from_bytes(content[:8], "little")
    second = 16 + int.from_bytes(content[size : size + 8], "little")
    swapped = content[size : size + second] + content[:size] + content[size + second :]
    assert swapped != content
    path.write_bytes(swapped)
    with pytest.raises(
        UserError, match=rf"{path.name}: bad between bytes 0 and .* SHA-256 is "
    ):
        verify(records, vocabulary)
    path = records / FILE_NAME
    manifest = without_seal(json.loads(path.read_text()), path)
    # Older manifests have no hashes.
    del manifest["shard_sha256"]
    (records / FILE_NAME).write_text(json.dumps(manifest))
    assert len(verify(records, vocabulary)) == 3


def test_a_vocabulary_of_another_size_is_refused(records, vocabulary):
    files = find_record_files(f"{records}/*.tfrecord*")
    with pytest.raises(UserError, match=rf"{FILE_NAME} has a vocabulary of .* but --vocab_fi"):
        verify_files(files, vocabulary.size + 1)


def test_a_file_of_another_size_than_was_built_is_named(records, vocabulary):
    path = records / FILE_NAME
    manifest = without_seal(json.loads(path.read_text()), path)
    name = sorted(manifest["shards"])[1]
    manifest["shard_bytes"][name] += 7
    path.write_text(json.dumps(sealed(manifest)))
    with pytest.raises(UserError, match=rf"{name}: bad at byte \d+: the file has .* bytes"):
        verify(records, vocabulary)
