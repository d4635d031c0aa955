#!/bin/sh
# Measures what the device allows and leaves the results, with a page, in a folder: /results, or the first argument
# that is no option. `--quick` takes small sizes and few runs, to see that everything works.
set -eu

out=/results quick=''
for argument in "$@"; do
    case $argument in
    --quick) quick=--quick ;;
    -*)
        echo "hlx-benchmark: unknown option $argument; usage: hlx-benchmark [--quick] [FOLDER]" >&2
        exit 2
        ;;
    *) out=$argument ;;
    esac
done
machine=$out/machines/here
mkdir -p "$machine"
if ! touch "$out/results.md"; then
    echo "hlx-benchmark: $out cannot be written: mount a folder there that user $(id -u) may write" >&2
    exit 1
fi

hlx doctor --quick
device=${HLX_DEVICE:-auto}

# The kernels and training steps, and their share of the device's peak.
# shellcheck disable=SC2086 # no word where $quick is empty
hlx-bench $quick --device "$device" --csv "$machine/kernels.csv"
# One product a thousand times, one model at every batch size: the same bits.
# shellcheck disable=SC2086
if ! hlx-bench prove $quick --device "$device" --out "$out/proof" >"$out/proof.txt"; then
    cat "$out/proof.txt"
    exit 1
fi
cat "$out/proof.txt"
hlx doctor --report "$out/device.json" >"$out/device.txt"

cat >"$out/results.md" <<PAGE
# Results

Measured on $(date -u +%Y-%m-%d) by \`hlx-benchmark${quick:+ $quick}\`, $(hlx --version). \`device.json\` may be sent in
(docs/devices.md of the repository).

## The device

\`\`\`
$(cat "$out/device.txt")
\`\`\`

## The same bits, again and again

\`\`\`
$(cat "$out/proof.txt")
\`\`\`

## Kernels and training steps

<!-- results: begin -->
<!-- results: end -->
PAGE
hlx-bench report --results "$out/machines" --page "$out/results.md"
echo "the page is $out/results.md"
