"""docs/topics.md says what the code says."""

from pathlib import Path

from culm_topics import docs
from culm_topics.catalogue.registry import CATALOGUE

DOCUMENT = Path(__file__).parents[2] / "docs" / "topics.md"


def test_the_document_is_what_the_code_renders() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == docs.render(), (
        "run: python -m culm_topics.docs > docs/topics.md"
    )


def test_every_topic_has_a_section() -> None:
    document = docs.render()
    for topic in CATALOGUE:
        assert f"\n## {topic.name}\n" in document
