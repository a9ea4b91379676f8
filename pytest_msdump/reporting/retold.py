"""A sentence of the engine in the language of the terminal: known again by its form, and said from its parts."""

from __future__ import annotations

from pytest_msdump.reporting.phrases import Phrases

__all__ = ["retold"]

# Enough for any sentence of ours; what is longer is somebody else's.
_LONGEST = 2000


def retold(sentence: str, say: Phrases) -> str:
    """Return what an English sentence of the engine says.

    Parameters
    ----------
    sentence : str
        As results.json has it.
    say : Phrases
        The language.

    Returns
    -------
    str
        The sentence itself in English, and where its form is not known: of another release, or a text of somebody else.

    Examples
    --------
    >>> retold("no operator of that name on the right side", Phrases("zh"))
    '右侧没有此名称的算子'
    """
    if say.language == "en" or len(sentence) > _LONGEST:
        return sentence
    # English, which most terminals speak, does without all these forms.
    from pytest_msdump.reporting.sentence_forms import chinese

    return chinese(sentence)
