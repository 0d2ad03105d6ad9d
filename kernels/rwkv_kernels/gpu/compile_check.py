"""Compile every GPU kernel for Hopper without a GPU: `python -m rwkv_kernels.gpu.compile_check [WORD ...]`.

One line a variant (registers, stack, shared memory, whether the matrix unit is used); exit 1 if one does not compile,
spills, uses more shared memory than there is, or does not use the matrix unit where it should. WORD: only
variants whose name contains one. ptxas and cuobjdump come with triton.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from rwkv_kernels.gpu.gemm import gemm_kernel
from rwkv_kernels.gpu.variant import Variant

MODULES = ("add_norm_mix", "low_rank", "wkv7", "wkv7_chunked", "gemm", "gemm_persistent", "sparse_value",
           "logit_lanes", "sampler", "logprobs")  # fmt: skip
HOPPER = GPUTarget("cuda", 90, 32)
SHARED_LIMIT = 227 * 1024
WRITE = re.compile(r"\b(st|atom|red)\.[\w.]*global")  # a kernel that never waits has them too
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The result of ptxas for one variant: registers a thread, bytes of stack a thread, bytes of shared memory;
    `early`: a kernel that starts before its inputs are there writes before it waits for them, or does not wait."""

    registers: int
    stack: int
    shared: int
    wgmma: bool
    early: bool

    def complaint(self, variant: Variant) -> str:
        """Return what is wrong with the variant; empty if nothing is."""
        if self.stack:
            return f"{self.stack} bytes of stack a thread: it spills"
        if self.shared > SHARED_LIMIT:
            return f"more than {SHARED_LIMIT} bytes of shared memory"
        if self.early:
            return "it writes before it waits for its inputs"
        return "no wgmma" if variant.wgmma and not self.wgmma else ""


def compile_variant(variant: Variant) -> CompileResult:
    """Compile for sm_90 and read what the assembler reports."""
    function = variant.function
    types = {name: text.removesuffix(":16") for name, text in variant.signature.items()}
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    attributes = {
        (function.arg_names.index(name),): [["tt.divisibility", 16]]
        for name, text in variant.signature.items()
        if text.endswith(":16")
    }
    overlap = {"OVERLAP": True} if "OVERLAP" in function.arg_names else {}
    source = ASTSource(function, signature, variant.constants | overlap, attributes)
    built = triton.compile(source, target=HOPPER, options=variant.options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(built.asm["cubin"])
        cubin.flush()
        report = subprocess.run([str(CUOBJDUMP), "-res-usage", cubin.name], capture_output=True, text=True, check=True)
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report.stdout)}
    shared: int = built.metadata.shared
    ptx: str = built.asm["ptx"]
    early = bool(overlap) and WRITE.search(ptx.partition("griddepcontrol.wait")[0]) is not None
    return CompileResult(found["REG"], found["STACK"] + found["LOCAL"], shared, "wgmma" in ptx, early)


def main(words: list[str]) -> int:
    """Print one line for each variant. Returns 1 if any is wrong."""
    assert isinstance(gemm_kernel, triton.JITFunction), "with TRITON_INTERPRET=1 nothing is compiled; unset it"
    failed = 0
    for variant in (v for module in MODULES for v in import_module(f"rwkv_kernels.gpu.{module}").variants()):
        if words and not any(word in variant.name for word in words):
            continue
        found = compile_variant(variant)
        complaint = found.complaint(variant)
        failed += bool(complaint)
        unit = "wgmma" if found.wgmma else "-"
        sizes = f"{found.registers:3} registers  {found.stack} stack  {found.shared:6} shared  {unit:5}"
        sys.stdout.write(f"{sizes}  {variant.name}  {complaint}".rstrip() + "\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
