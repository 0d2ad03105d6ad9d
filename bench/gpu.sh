#!/usr/bin/env bash
# Everything that wants a GPU, in one call of less than ten minutes: kernel and exactness tests, engine verify, a whole
# node, the engine's speed at one size, the kernels' own speeds, peers from PyPI.
#
#     bench/gpu.sh SIZE [STEP...]     SIZE: 0.1B 0.4B 1.5B 2.9B 7.2B; STEP: tests verify node engine kernels peers (all)
#
# It needs python3 with torch, triton, numpy, pytest, httpx, h11 and msgspec on its path (pyrwkv-tokenizer is taken if
# it is there); `tests` needs pytest-xdist, too, and `node` what pyproject.toml lists as `daemon`. It installs nothing.
# Logs and JSON go to $OUT (default bench/out), eight files at most; the summary comes last. A step that fails or runs
# out of its time is reported and the rest goes on; the exit code is 1 then.
# COMMIT names the commit where there is no repository; BUDGET_S is the time for all of it; PYTHON, the interpreter.
# DEVICE=cpu is a dry run in Triton's interpreter with tiny shapes; TESTS are then the tests to run.
set -u
cd "$(dirname "$0")/.." || exit 1
SIZE=${1:?usage: bench/gpu.sh SIZE [STEP...]}
shift
STEPS=${*:-tests verify node engine kernels peers}
DEVICE=${DEVICE:-cuda}
PYTHON=${PYTHON:-python3}
BUDGET_S=${BUDGET_S:-570}
TESTS=${TESTS:-tests/integration/kernels tests/integration/engine/test_exact.py
    --ignore=tests/integration/kernels/test_gpu_compile.py}
OUT=${OUT:-bench/out}
mkdir -p "$OUT" || exit 1
OUT=$(cd "$OUT" && pwd)
rm -f "$OUT"/{checks,engine,kernels,peers}.log "$OUT"/{engine,kernels,peers}.json "$OUT"/summary.txt
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
export PYTHONPATH="$PWD:$PWD/tests/support:$PWD/engine:$PWD/kernels:$PWD/weights:$PWD/daemon:$PWD/data${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
failed=0
report=()

if [ "$DEVICE" = cuda ]; then
    "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
        echo "no GPU that torch sees here; DEVICE=cpu is a dry run" >&2
        exit 1
    }
    tiny=() largest=1024 workers=8
else
    export TRITON_INTERPRET=1 OMP_NUM_THREADS=1
    tiny=(--tiny --numerics "${NUMERICS:-fast}") largest=2 workers=0
fi
case $SIZE in # the widths that the kernels are timed at
    0.1B) width="D 768" ;;
    1.5B) width="D 2048" ;;
    7.2B) width="D 4096" ;;
    *) width="" ;;
esac

# run NAME SECONDS LOG COMMAND...: within what is left of the budget; it is interrupted, so that it ends what it started
run() {
    local name=$1 limit=$2 log=$3 left=$((BUDGET_S - SECONDS)) began=$SECONDS code
    shift 3
    if [ "$left" -lt 5 ]; then
        report+=("not run   $name: no time was left")
        failed=1
        return
    fi
    echo "== $name" | tee -a "$log"
    timeout -s INT -k 15 $((limit < left ? limit : left)) "$@" 2>&1 | tee -a "$log"
    code=${PIPESTATUS[0]}
    case $code in
        0) report+=("ok        $name ($((SECONDS - began)) s)") ;;
        124 | 137) report+=("timed out $name after $((SECONDS - began)) s"); failed=1 ;;
        *) report+=("FAILED    $name: exit code $code ($((SECONDS - began)) s)"); failed=1 ;;
    esac
}

# The repository's own configuration asks for plugins that the tests of a GPU do not need.
pytest=("$PYTHON" -m pytest -c /dev/null --rootdir . --import-mode=importlib --slow=all -q
    -W ignore::pytest.PytestUnknownMarkWarning -p no:cacheprovider)

tests() {
    run tests 150 "$OUT/checks.log" "${pytest[@]}" -n "$workers" $TESTS
}

# The kernels of the built-in checkpoint may have to be compiled first. After a failure the log ends with what the
# processes of the node wrote.
node() {
    local daemon=tests/integration/daemon
    run node 200 "$OUT/checks.log" "${pytest[@]}" -vv -rP --maxfail 2 --durations 0 --basetemp "$SCRATCH/node" \
        $daemon/test_gpu_watch_real.py $daemon/test_node_on_gpu.py
    [[ ${report[-1]} == ok* ]] ||
        tail -n 40 "$SCRATCH"/node/*/n*/{daemon.log,h/runs/engines/e*/log.txt} 2>&1 | tee -a "$OUT/checks.log"
}

verify() {
    local of=("$PYTHON" -m rwkv_engine verify)
    run "verify builtin exact" 120 "$OUT/checks.log" "${of[@]}" builtin --device "$DEVICE" --numerics exact \
        --largest "$largest"
    [ "$DEVICE" = cuda ] || return
    "$PYTHON" -c 'import sys; from pathlib import Path; from rwkv_weights.formats import synthetic
synthetic.write(Path(sys.argv[1]), synthetic.dims_of(12, 768))' "$SCRATCH/random-0.1b.pth"
    for numerics in exact fast; do
        run "verify 0.1B $numerics" 120 "$OUT/checks.log" "${of[@]}" "$SCRATCH/random-0.1b.pth" --device cuda \
            --numerics $numerics --largest $([ $numerics = exact ] && echo 1024 || echo 1) --threads "$(nproc)"
    done
}

engine() {
    run engine 400 "$OUT/engine.log" "$PYTHON" bench/engine.py --device "$DEVICE" --sizes "$SIZE" "${tiny[@]}" \
        --parts decode,serving,prefill --json "$OUT/engine.json"
}

kernels() {
    for script in kernels/bench/bench_*.py; do
        name=$(basename "$script" .py)
        [ "$name" = bench_sampler ] && only="" || only=$width # a sampler sees no width
        run "$name" 60 "$OUT/kernels.log" "$PYTHON" "$script" --only "$only" --json "$SCRATCH/$name.json"
    done
    "$PYTHON" -c 'import json, sys
print(json.dumps([json.load(open(name)) for name in sys.argv[2:]], indent=1), file=open(sys.argv[1], "w"))' \
        "$OUT/kernels.json" $(ls "$SCRATCH"/bench_*.json 2>/dev/null)
}

peers() {
    run peers 150 "$OUT/peers.log" "$PYTHON" bench/engine.py --device "$DEVICE" --sizes "$SIZE" "${tiny[@]}" \
        --parts peers --json "$OUT/peers.json"
}

for step in $STEPS; do
    case $step in
        tests | verify | node | engine | kernels | peers) "$step" ;;
        *) report+=("FAILED    $step is no step"); failed=1 ;;
    esac
done

{
    echo "== summary of bench/gpu.sh $SIZE, $(date -u +%Y-%m-%dT%H:%MZ), commit ${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo unknown)}"
    printf '%s\n' "${report[@]}"
    for file in "$OUT"/engine.json "$OUT"/peers.json; do
        [ -f "$file" ] && "$PYTHON" bench/speed/table.py "$file"
    done
} | tee "$OUT/summary.txt"
exit $failed
