#!/usr/bin/env bash
# Packs what a machine with a GPU needs to measure all of docs/BENCHMARK_RESULTS.md: one folder, no Rust, no network there.
#
#   bash benches/peers/pack.sh OUT [--no-burn] [--no-tinygrad] [--llama SOURCE]
#
# OUT then holds hlx, hlx-bench, the scripts, burn-peer (Burn's backend for Vulkan), tinygrad with Dawn, with --llama the
# library of llama.cpp for Vulkan, and run.sh, which measures everything that can be measured there. SOURCE is the unpacked
# source distribution of llama-cpp-python, which has llama.cpp. The programs link with this machine's C library;
# programs of `cargo xtask release` in target/dist are taken instead if they are there.
# Other programs' code is fetched to run only: nothing of it comes into the repository.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:?usage: pack.sh OUT [--no-burn] [--no-tinygrad] [--llama SOURCE]}
shift
with_burn=yes with_tinygrad=yes llama=
while [ $# -gt 0 ]; do
    case $1 in
        --no-burn) with_burn=no ;;
        --no-tinygrad) with_tinygrad=no ;;
        --llama) llama=${2:?--llama needs the folder of llama-cpp-python}; shift ;;
        *) echo "pack.sh: unknown argument $1" >&2; exit 2 ;;
    esac
    shift
done
mkdir -p "$out/built"
out=$(cd "$out" && pwd)

# HLX.
programs=$root/target/dist/x86_64-unknown-linux-gnu/release
if [ ! -x "$programs/hlx-bench" ]; then
    (cd "$root" && cargo build --release --locked -p hlx-cli -p hlx-bench --bins)
    programs=$root/target/release
fi
cp "$programs/hlx" "$programs/hlx-bench" "$out/"
cp "$root"/benches/peers/*.py "$out/"

# Burn: SPIR-V for GPUs, WGSL for software drivers.
if [ "$with_burn" = yes ]; then
    cd "$root/benches/peers/burn"
    target=${BURN_TARGET_DIR:-$out/burn-target}
    CARGO_TARGET_DIR=$target cargo build --release --locked --no-default-features
    cp "$target/release/burn-peer" "$out/built/burn-peer-wgsl"
    CARGO_TARGET_DIR=$target cargo build --release --locked
    cp "$target/release/burn-peer" "$out/built/burn-peer"
    [ -n "${BURN_TARGET_DIR:-}" ] || rm -rf "$target"
    cd "$root"
fi

# tinygrad, and Dawn, through which it runs on Vulkan. They need no compiler; numpy comes with them.
if [ "$with_tinygrad" = yes ]; then
    python3 -m pip install --quiet --upgrade --target "$out/built/python" \
        tinygrad==0.14.0 dawn-python==0.3.0 numpy
fi

# llama.cpp's library with its backend for Vulkan, which needs cmake, glslc and the headers of Vulkan.
if [ -n "$llama" ]; then
    cmake -S "$llama/vendor/llama.cpp" -B "$out/llama-build" -DCMAKE_BUILD_TYPE=Release -DGGML_VULKAN=ON -DGGML_NATIVE=OFF \
        -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF
    cmake --build "$out/llama-build" --parallel
    mkdir -p "$out/built/llama"
    cp -P "$out"/llama-build/bin/lib*.so* "$out/built/llama/"
    cp -r "$llama/llama_cpp" "$out/built/llama/"
    rm -rf "$out/llama-build"
    python3 -m pip install --quiet --upgrade --target "$out/built/python" gguf diskcache jinja2 typing_extensions numpy
fi

cat > "$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# Measures everything on this machine's GPU: bash run.sh OUT [OPTIONS OF hlx-bench results]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: run.sh OUT [--only SECTIONS] ..}
shift
exec "$here/hlx-bench" results --device vulkan --scripts "$here" --programs "$here/built" --hlx "$here/hlx" --out "$out" "$@"
RUN
du -sh "$out"
