"""Closed classes of English words that IFBench's rules ask for."""

from typing import Final

# The words of NLTK's English stop-word list as far as they are runs of letters: an entry with an apostrophe never
# equals a run of word characters, so it never counts upstream.
_STOP_WORDS = (
    # articles, pronouns, determiners
    "a an the i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves this that these those what which who whom all any both "
    "each few more most other some such own same no nor not only "
    # verbs
    "am is are was were be been being have has had having do does did doing can will should "
    # prepositions, conjunctions, adverbs
    "and but if or because as until while of at by for with about against between into through during before after "
    "above below to from up down in out on off over under again further then once here there when where why how so "
    "than too very just now "
    # the parts of contractions that are split at the apostrophe
    "s t d m o y ll re ve ma ain don aren couldn didn doesn hadn hasn haven isn mightn mustn needn shan shouldn wasn "
    "weren won wouldn"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())

_PRONOUNS = (
    "i me we us you he him she her it they them my mine our ours your yours his hers its their theirs myself "
    "ourselves yourself yourselves himself herself itself themselves this that these those who whom whose which what "
    "whoever whomever whatever whichever anybody anyone anything everybody everyone everything nobody nothing "
    "somebody someone something each either neither both all some any none"
)
PRONOUNS: Final = frozenset(_PRONOUNS.split())

COORDINATING_CONJUNCTIONS: Final = frozenset({"and", "but", "for", "nor", "or", "so", "yet"})

_NAMES = (
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin "
    "Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria "
    "Elijah Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella "
    "Jonathan"
)
PERSON_NAMES: Final = tuple(_NAMES.split())
