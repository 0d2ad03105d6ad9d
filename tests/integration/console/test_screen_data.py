"""The screens Data and Weights against a real node that has measured two checkpoints."""

from typing import Any

OTHER = "rwkv7-g1-0.1b-20260801-ctx4096"


def shell(node: Any) -> dict[str, Any]:
    """What commands of the console are started with, so that they find this node."""
    return {"environ": {**node.environment, "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}}


async def test_the_catalogue_says_what_lies_ready_why_not_and_how_it_is_asked(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(120, 36), **shell(measured)) as hands:
        text = await hands.press("7", see=("✓ built in", "✓ ready", "3 ready", "own_quiz", "– missing", "! untried"))
        assert text.index("demo_arith") < text.index("aime24")
        await hands.see("Demo: sums below 100", "300 of test", "demo-v1/1", "builtin ", " n 40 ")
        await hands.press("j", "j", see="own_quiz · ")
        await hands.press("slash")
        await hands.type("aime24")
        await hands.see("aime24 is not prepared", "Maxwell-Jia/AIME_2024", "never run")
        await hands.press("enter")
        await hands.press("f", see=("Prepare aime24?", "loses", "rwkvctl data prepare aime24"))
        await hands.press("escape")
        await hands.gone("Prepare aime24?")
        await hands.press("f", see="Prepare aime24?")
        await hands.press("y", see="rwkv_data: ")  # it is told to stay off the network, and says so
        assert hands.app.commands[-1] == "rwkvctl data prepare aime24"
        await hands.see("aime24 is not prepared")
        await hands.press("escape", see="own_quiz")
        await hands.press("slash")
        await hands.type("demo_arith")
        await hands.press("enter", "f", see="rows come with rwkvctl")
        await hands.press("p", see="Prompts of demo_arith")
        await hands.press("enter", see=("benchmarks show demo_arith free_response", "exit 0"))
        await hands.press("g")
        await hands.press("escape")
        await hands.gone("exit 0")
        await hands.press("enter", see=("benchmarks show demo_arith", "exit 0"))
        await hands.press("escape", "D", see=("New dispatch", "demo_arith"))
        await hands.press("escape", "r", see="Demo: sums below 100")


async def test_weights_say_what_they_are_where_they_fit_and_what_they_scored(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(80, 24), **shell(measured)) as hands:
        text = await hands.press("8", see=(OTHER[:10], "builtin", "✓ all", "· cold", "fits 1 of 1 devices"))
        assert "2 checkpoints" in text
        await hands.see("4 layers, width 128", "in bfloat16", "demo_choice")
        await hands.press("j", see=("in bfloat16", "rwkv7-builtin"))
        await hands.press("enter", see=("weights show", "RWKV-7 (x070)", "exit 0"))
        await hands.press("escape")
        await hands.gone("exit 0")
        await hands.press("v", see=("weights verify", "exit 0"))
        await hands.press("escape", "f", see=": weights download --match")
        await hands.press("escape", "D", see=("New dispatch", "builtin"))
        await hands.press("escape", "r", see="2 checkpoints")


async def test_a_file_that_is_no_checkpoint_says_so(fresh: Any, pressing: Any) -> None:
    (fresh.home / "weights" / "rwkv7-g1-0.4b-20260901-ctx4096.pth").write_bytes(b"not a checkpoint")
    async with pressing(fresh, **shell(fresh)) as hands:
        await hands.press("8", see="rwkv7-g1-0.4b-20260901")
        await hands.press("slash")
        await hands.type("0.4b")
        await hands.see("is no whole checkpoint of plain tensors")
        await hands.press("enter")
