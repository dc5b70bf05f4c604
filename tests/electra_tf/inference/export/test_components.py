"""Components that a model does not have, and files of an export that are not as written."""

import types

import pytest

from electra_tf.inference.export.pretrained import DiscriminatorServable, GeneratorServable
from electra_tf.inference.export.saved_model import check_checksums, write_checksums
from electra_tf.util.errors import UserError


def test_a_component_that_a_model_lacks_is_refused_with_those_it_has():
    config = types.SimpleNamespace(objective="mlm", generator_type="unigram")
    model = types.SimpleNamespace(config=config, has_discriminator=False, generator=None)
    with pytest.raises(UserError, match=r"--objective=mlm .* no discriminator: export --compo"):
        DiscriminatorServable(model, None, 8)
    with pytest.raises(UserError, match="--generator_type=unigram, which cannot fill in masks"):
        GeneratorServable(model, None, 8, 3)


def test_a_file_of_an_export_that_is_lost_or_changed_is_named(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    graph = tmp_path / "saved_model.pb"
    graph.write_text("graph")
    write_checksums(tmp_path)
    check_checksums(tmp_path)
    graph.write_text("another")
    with pytest.raises(UserError, match=f"^{graph} has changed since the export: export the"):
        check_checksums(tmp_path)
    graph.unlink()
    with pytest.raises(UserError, match=f"^{graph} cannot be read .No such file.* since the"):
        check_checksums(tmp_path)
