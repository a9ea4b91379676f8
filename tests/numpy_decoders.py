"""Decoders of a small recurrent net, of numpy alone, right and with mistakes: as functions, and as a command."""

NET = """
import numpy as np

rng = np.random.default_rng(0)
V, D = 97, 16
E = rng.standard_normal((V, D)).astype("float32")
W = rng.standard_normal((D, D)).astype("float32") / 4

def made(noise=0.0, pads=True, late=None, ties=0.0):
    def decode(ids, mask):
        hidden = np.zeros((len(ids), D), "float32")
        for t in range(ids.shape[1]):
            new = np.tanh(hidden @ W + E[ids[:, t]])
            hidden = np.where(mask[:, t, None], new, hidden) if pads else new
        for step in range(1000):
            logits = hidden @ E.T + noise * np.random.default_rng(step).standard_normal((len(ids), V)).astype("float32")
            best = np.argsort(logits, axis=-1)[:, -2:]
            if ties and step == 3:
                np.put_along_axis(logits, best[:, :1], logits.max(-1, keepdims=True) + ties, -1)
            chosen = yield logits
            hidden = np.tanh(hidden @ W * (1.2 if late is not None and step >= late else 1.0) + E[chosen])
    return decode

reference = made()
port = made(1e-5)
rounded, noisy, far, farther = made(1e-6), made(1e-4), made(0.05), made(0.1)
padding = made(1e-5, pads=False)
cache = made(1e-5, late=4)
tied_reference, tied_port = made(ties=-1e-6), made(1e-5, ties=1e-6)

def routed(flipped=None, wild={}, by=1e-6, routers=("layer_0", "layer_1")):
    # Two of six experts, in two layers; at step 3 the second and third of layer 1 are nearly equal. `flipped` is the
    # first id of a prompt where these change places, `wild` are steps with other logits by first ids.
    def decode(ids, mask):
        starts = [row[real][0] for row, real in zip(ids, mask)]
        running = made(1e-5 if flipped else 0.0)(ids, mask)
        logits = next(running)
        for step in range(1000):
            values = np.random.default_rng(step).standard_normal((2, 1, 6)).repeat(len(ids), 1).astype("float32")
            second, third = np.argsort(-values[1, 0])[1:3]
            if step == 3:
                values[1, :, third] = values[1, :, second] - 1e-6
                values[1, [start == flipped for start in starts], third] += 1e-6 + by
            off = np.array([[step in wild.get(start, ())] for start in starts])
            logits = logits + off.astype("float32") * 3 * np.random.default_rng(9).standard_normal(V).astype("float32")
            given = dict(zip(("layer_0", "layer_1"), values))
            chosen = yield {"logits": logits, "routers": {name: given[name] for name in routers}, "experts": 2}
            logits = running.send(chosen)
    return decode

routed_reference, routed_port = routed(), routed(1, {1: [3]})
unrouted_port = routed(1, {1: [3]}, routers=())
half_routed_port = routed(1, {1: [3]}, routers=("layer_1",))
off_elsewhere, off_in_another_prompt = routed(1, {1: [3, 5]}), routed(1, {1: [3], 4: [3]})
far_router = routed(1, {1: [3]}, by=0.5)

def no_router(ids, mask):
    while True:
        yield {"logits": np.zeros((len(ids), V)), "routers": [np.zeros((len(ids), 4))], "experts": 5}

def other_routers(ids, mask):
    for step in range(1000):
        routers = [np.zeros((len(ids), 4))] * (1 + (step == 2))
        yield {"logits": np.zeros((len(ids), V)), "routers": routers, "experts": 1}

def no_generator(ids, mask):
    return np.zeros((len(ids), V))

def short(ids, mask):
    yield np.zeros((len(ids), V))

def of_integers(ids, mask):
    while True:
        yield np.zeros((len(ids), V), int)

def raising(ids, mask):
    raise RuntimeError("no such weight")
    yield
"""
# Of a file that lies beside it; its last words are what it does wrong.
COMMAND = """
import collections, json, os, sys, time
import numpy as np
import net

asked = json.load(open(os.environ["MSDUMP_PROMPTS"]))
folder, wrong, steps = os.environ["MSDUMP_LOGITS"], sys.argv[2:], asked["tokens"]
if "fail" in wrong:
    raise SystemExit("no weights here")
if "hang" in wrong:
    time.sleep(600)

def said(ids, mask, forced):
    running = getattr(net, sys.argv[1])(ids, mask)
    found = [next(running)]
    for step in range(steps - 1):
        logits = found[-1]["logits"] if isinstance(found[-1], dict) else found[-1]
        found.append(running.send(logits.argmax(-1) if forced is None else np.array([f[step] for f in forced])))
    if isinstance(found[0], dict):
        for name in found[0]["routers"]:
            routers[name].extend(np.stack([one["routers"][name] for one in found], 1))
        found = [one["logits"] for one in found]
    return np.stack(found, 1)

routers = collections.defaultdict(list)

prompts, forced = asked["prompts"], asked["forced"]
if asked["batched"]:
    length = max(map(len, prompts))
    ids = np.array([[0] * (length - len(p)) + p for p in prompts])
    mask = np.array([[False] * (length - len(p)) + [True] * len(p) for p in prompts])
    logits = said(ids, mask, forced)
else:
    ones = [(np.array([p]), np.ones((1, len(p)), bool), forced and [forced[n]]) for n, p in enumerate(prompts)]
    logits = [said(*one)[0] for one in ones]
for n, one in enumerate(logits):
    if "lacking" in wrong and n:
        break
    one = one[:-1] if "short" in wrong else one.astype(int) if "integers" in wrong else one
    if "bits" in wrong:
        one = (one.astype("<f4").view("<u4") >> 16).astype("<u2")
    np.save(f"{folder}/prompt_{n}.logits.npy", one, allow_pickle=False)
    for name, values in routers.items():
        np.save(f"{folder}/prompt_{n}.{name}.router.npy", values[n])
        if "no experts" not in wrong:
            np.save(f"{folder}/prompt_{n}.{name}.experts.npy", np.argsort(-values[n], -1, "stable")[:, :2])
    if "junk" in wrong:
        open(f"{folder}/prompt_{n}.logits.npy", "wb").write(b"logits")
    if "ids" in wrong:
        np.save(f"{folder}/prompt_{n}.ids.npy", (one.argmax(-1) + 1) % one.shape[1])
    if "ids out of range" in wrong:
        np.save(f"{folder}/prompt_{n}.ids.npy", one.argmax(-1) + 97)
"""
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9]]
