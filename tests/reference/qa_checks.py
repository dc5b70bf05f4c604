"""Compares question answering with the authors': features, heads, answers and metrics."""

from tests.reference.qa_feature_checks import check_qa_features
from tests.reference.qa_head_checks import check_qa_heads
from tests.reference.qa_scorer_checks import check_qa_scorers

__all__ = ["check_qa_features", "check_qa_heads", "check_qa_scorers"]
