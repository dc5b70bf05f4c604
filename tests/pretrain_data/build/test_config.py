"""Settings of builds as they are given in Python."""

import pathlib

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.paths import as_path
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.vocabulary.config import VocabularyBuildConfig


def test_paths_may_be_strings(tmp_path):
    build = CorpusBuildConfig(None, "v.txt", str(tmp_path), inputs=("a.txt",))
    assert build.corpus_dir is None
    assert (build.vocab_file, build.output_dir) == (pathlib.Path("v.txt"), tmp_path)
    vocabulary = VocabularyBuildConfig(tmp_path, "gs://bucket/v.txt", 64)
    assert vocabulary.output_file == as_path("gs://bucket/v.txt")


def test_a_single_string_is_no_list_of_files(tmp_path):
    with pytest.raises(UserError, match="inputs must be a list of strings, not 'a'"):
        CorpusBuildConfig(None, "v.txt", tmp_path, inputs="a")
    with pytest.raises(UserError, match="inputs must be a list of strings, not 'a'"):
        VocabularyBuildConfig(None, "v.txt", 64, inputs="a")
    with pytest.raises(UserError, match="report must be a list of strings, not 'a'"):
        VocabularyBuildConfig(tmp_path, "v.txt", 64, report="a")
