"""Make results of two runners and two iterations, and inputs, with Polygraphy, and what numpy has of the results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from polygraphy.comparator import IterationResult, RunResults
from polygraphy.json import save_json

HERE = Path(__file__).parent


def main() -> None:
    rng, values, results = np.random.default_rng(0), {}, RunResults()
    for runner in ("onnxrt-runner-N0-11/28/26-15:40:05", "trt-runner-N0-11/28/26-15:40:06"):
        iterations = []
        for number in (0, 1):
            outputs = {
                "/layers.0/Relu_output_0": rng.normal(size=(2, 3)).astype(np.float32),
                "boxes": np.asfortranarray(rng.normal(size=(40, 4))),
                'odd " name': np.arange(7),
                "scalar": np.array(3.5, np.float16),
            }
            iterations.append(IterationResult(outputs, runtime=0.1, runner_name=runner))
            values |= {f"{runner[:3]} {number} {name}": array for name, array in outputs.items()}
        results.append((runner, iterations))
    save_json(results, str(HERE / "results.json"))
    save_json([{"x": np.ones((2, 3), np.float32) * number} for number in (1, 2)], str(HERE / "inputs.json"))
    np.savez_compressed(HERE / "values.npz", **values)


if __name__ == "__main__":
    main()
