"""The compiled constraints of one vocabulary. Torch-free.

`llguidance` does the work; it is imported by the first constraint. A grammar is compiled on the server's side, once
for all samples of all requests that name it; following it takes a bounded amount of work a token.
"""

import asyncio
import atexit
import threading
from collections import OrderedDict
from collections.abc import Iterable
from functools import cache, cached_property
from typing import TYPE_CHECKING

from rwkv_engine.constraints.compile_in_child import TrialCompiler
from rwkv_engine.constraints.grammar_of import grammar_of, is_cheap
from rwkv_engine.constraints.guide import Grammar, first_fault, sentence
from rwkv_engine.errors import ConstraintError
from rwkv_engine.tokenizer import END_OF_TEXT, Tokenizer
from rwkvctl.protocol.engine import Constraint

if TYPE_CHECKING:
    from llguidance import LLTokenizer

MOST_KEPT = 128
MOST_STATES = 100_000  # of a grammar's automaton, which grows while samples are generated: 0.25 to 2 KB each
FORCED_CHARACTERS = 512  # characters of forced text that decide its next token: the length of four longest tokens
MISSING = "a constraint needs the package llguidance, which is not installed here; pip install 'rwkvctl[engine]'"


class Grammars:
    """The grammars of one vocabulary, the last used ones kept. May be used from any thread but the engine's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[str, Grammar | str] = OrderedDict()

    def compiled(self, constraint: Constraint) -> Grammar:
        """Return the grammar of a constraint. Raises ConstraintError, within seconds whatever the constraint is."""
        self._check_installed()
        source = grammar_of(constraint)
        found = self._found(source)
        if found is None:
            with self._compiling:  # one at a time; a known grammar is returned without waiting
                found = self._found(source)
                if found is None:
                    found = self._keep(source, self._compile(source, cheap=is_cheap(constraint)))
        if isinstance(found, str):
            raise ConstraintError(found)
        return found

    async def prepare(self, constraints: Iterable[Constraint | None]) -> None:
        """Compile the grammars that are not known yet without blocking the event loop, so that `compiled` then answers
        at once; stop at the first that is refused. Requests take turns, so that together they use one thread."""
        for constraint in constraints:
            if constraint is not None and not self._knows(constraint):
                async with self._turn:
                    try:
                        await asyncio.to_thread(self.compiled, constraint)
                    except ConstraintError:
                        return

    def _knows(self, constraint: Constraint) -> bool:
        try:
            self._check_installed()
            source = grammar_of(constraint)
        except ConstraintError:
            return True
        return self._found(source) is not None

    def _found(self, source: str) -> Grammar | str | None:
        with self._lock:
            found = self._kept.get(source)
            if found is None or (isinstance(found, Grammar) and found.spoiled):
                return None
            self._kept.move_to_end(source)
            return found

    def _compile(self, source: str, *, cheap: bool) -> Grammar | str:
        """Return the compiled grammar, or why there is none."""
        from llguidance import LLMatcher, LLParserLimits

        if not cheap and (fault := _trial_compiler().fault(source)):
            return sentence(fault)
        limits = LLParserLimits(max_lexer_states=MOST_STATES, verbose_errors=False)
        matcher = LLMatcher(self._vocabulary, source, log_level=0, limits=limits)
        grammar = Grammar(matcher, -(-self._tokenizer.size // 32))
        return first_fault(grammar) or grammar

    def _keep(self, source: str, found: Grammar | str) -> Grammar | str:
        with self._lock:
            self._kept[source] = found
            self._kept.move_to_end(source)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    @cached_property
    def _vocabulary(self) -> "LLTokenizer":
        from llguidance import LLTokenizer, TokenizerWrapper

        return LLTokenizer(TokenizerWrapper(_WrappedTokenizer(self._tokenizer)))

    @staticmethod
    def _check_installed() -> None:
        try:
            import llguidance  # noqa: F401
        except ImportError as error:
            raise ConstraintError(MISSING) from error


@cache
def _trial_compiler() -> TrialCompiler:
    """Return the one child of this process: it knows no vocabulary, so all vocabularies share it."""
    made = TrialCompiler()
    atexit.register(made.close)
    return made


class _WrappedTokenizer:
    """A tokenizer with the attributes that llguidance's TokenizerWrapper reads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokens = [tokenizer.token_bytes(token) for token in range(tokenizer.size)]
        self.eos_token_id = END_OF_TEXT
        self.bos_token_id = None
        self.special_token_ids = [END_OF_TEXT]
        self._encode = tokenizer.encode

    def __call__(self, text: str | bytes) -> list[int]:
        """Return the ids of forced text. Only the first token is forced at a time, so the beginning of the text
        suffices."""
        return self._encode((text.decode() if isinstance(text, bytes) else text)[:FORCED_CHARACTERS])
