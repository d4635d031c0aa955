"""Writes `rates.json`: the rates of PyTorch's schedulers. Run it from this folder, with PyTorch installed."""

import json
from pathlib import Path

import torch
from cases import CASES, RATES, rates


def main() -> None:
    """Writes the rates of every case, in 12 digits."""
    found = {"torch": torch.__version__.split("+")[0]}
    for name, case in CASES.items():
        groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in RATES]
        made = rates(case, torch.optim.lr_scheduler, torch.optim.SGD(groups, lr=1.0, momentum=0.5))
        made["rates"] = [[float(f"{rate:.12g}") for rate in series] for series in made["rates"]]
        if "momentum" in made:
            made["momentum"] = [float(f"{rate:.12g}") for rate in made["momentum"]]
        found[name] = made
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in found.items()]
    Path("rates.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
