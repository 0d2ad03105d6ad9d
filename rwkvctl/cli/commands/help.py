"""`rwkvctl help`: print all verbs, one verb in full, or the reference in Markdown."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import EXIT_CODES, overview, parser_for, reference, unknown_verb
from rwkvctl.cli.registry import Option, find, load_all, verb
from rwkvctl.protocol.errors import Exit


@verb
def help_(context: Context, words: list[str] = [], *, markdown: bool = False) -> int:  # noqa: B006 - read by the registry, never written
    """List all verbs, or explain one verb.

    words: the verb
    markdown: the complete reference, as in docs/verbs.md

    $ rwkvctl help
    $ rwkvctl help dispatch
    """
    named = find(words)
    if words and named is None:
        raise unknown_verb(" ".join(words))
    if context.as_json:
        meant = [named] if named else load_all()
        verbs = [{"verb": found.words, "summary": found.summary, "flags": flags(found.options)} for found in meant]
        codes = {str(code.value): meaning for code, meaning in EXIT_CODES.items()}
        context.show_local("rwkvctl.help/1", {"items": verbs, "exit_codes": codes})
        return Exit.OK
    if markdown:
        context.terminal.write(reference())
        return Exit.OK
    context.terminal.write(parser_for(named).format_help() if named else overview())
    return Exit.OK


def flags(options: list[Option]) -> list[str]:
    return [option.flags[0] for option in options if option.flags]
