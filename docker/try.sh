#!/bin/bash
# What `cargo xtask image` runs in the image: try.sh doctor|train|benchmark|serve. Without a network, in /work.
set -euo pipefail
cd /work

case $1 in
doctor)
    hlx doctor --quick
    ;;
train)
    # On the CPU, and computed again by lavapipe of the image's Mesa.
    hlx train /usr/share/hlx/configs/ascii-specialist.toml --out run --device cpu \
        --set train.max_steps=2 --set train.batch_size=4 --set train.log_every=1 >train.txt
    hlx verify run --device vulkan
    ;;
benchmark)
    HLX_DEVICE=cpu hlx-benchmark --quick results >benchmark.txt
    echo "rows of tables in the page: $(grep -c '^| ' results/results.md)"
    ;;
serve)
    hlx serve run --port 8000 2>serve.txt &
    server=$!
    trap 'kill $server' EXIT
    for _ in $(seq 100); do
        if (: </dev/tcp/127.0.0.1/8000) 2>/dev/null; then break; fi
        sleep 0.2
    done
    body='{"model": "run", "prompt": "List of numbers one two", "max_tokens": 4, "seed": 1}'
    exec 3<>/dev/tcp/127.0.0.1/8000
    printf 'POST /v1/completions HTTP/1.1\r\nHost: hlx\r\nConnection: close\r\nContent-Type: application/json\r\n' >&3
    printf 'Content-Length: %s\r\n\r\n%s' ${#body} "$body" >&3
    answer=$(cat <&3)
    echo "${answer%%$'\r'*}"
    grep -q '"object":"text_completion"' <<<"$answer"
    ;;
*)
    echo "try.sh: $1 is none of doctor, train, benchmark, serve" >&2
    exit 2
    ;;
esac
