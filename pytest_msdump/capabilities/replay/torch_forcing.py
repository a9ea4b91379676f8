"""Teacher forcing of PyTorch models: one run in the left's precision, one in float64, both with the left's tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from itertools import accumulate, count
from typing import Any

import numpy as np

from pytest_msdump.capabilities.record.calls import leaves, with_leaves
from pytest_msdump.capabilities.record.torch import named, unwrapped
from pytest_msdump.capabilities.record.torch_hooks import ForwardHooks, Gradients
from pytest_msdump.capabilities.record.torch_operations import (
    around_functions,
    around_operations,
    computes,
    function_name,
)
from pytest_msdump.capabilities.record.torch_tensors import array_of, is_backward, is_tensor, weights
from pytest_msdump.capabilities.replay.forcing import (
    ForcedPlace,
    Forcing,
    Marks,
    Ties,
    not_replayable,
    precision,
)
from pytest_msdump.capabilities.replay.torch_double import (
    BESIDE_WHOLE,
    TO_WHOLE,
    Calling,
    at_ties,
    copied,
    described,
    floats_through,
    half_types,
    in_double,
    rounded,
    through,
)
from pytest_msdump.capabilities.replay.torch_steps import Steps
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.errors import ConfigError, MsdumpError, missing_package
from pytest_msdump.core.model.record import Local

# Functions that may give back what they are given, as it is.
_PASSING = frozenset(
    {"to", "type", "type_as", "float", "double", "half", "bfloat16"}
    | {"contiguous", "reshape", "flatten", "getitem", "dropout", "clone", "detach"}
)
_IN_PLACE = frozenset({"setitem", *(f"i{name}" for name in ("add", "sub", "mul", "truediv", "pow", "and", "or"))})
_LONGEST_REASON = 300
_FEW_MARKS = 16


def force(model: Any, run: Callable[[Any], Any], forcing: Forcing, *, policy: str = "") -> dict[int, Local]:
    """Run copies of a model with the left's tensors in their places; return the judgement of each pair, by number."""
    import torch

    model = unwrapped(model)
    names = names_of(model)
    leaf_names = [name for name, module in named(model).items() if not [*module.children()]]
    dtype, is_mixed = precision(forcing.dtypes(leaf_names) or forcing.dtypes(names))
    if dtype == "float32" and forcing.has_functions:
        # Inside of a module, functions may be in either.
        dtype, is_mixed = precision(forcing.dtypes(place.label for place in forcing.places))[0], False
    is_autocast = policy.startswith("autocast") or (is_mixed and dtype != "float32")
    low = getattr(torch, dtype)
    # A quarter of what the weights take in float64.
    forcing.room += sum(2 * weight.numel() for weight in model.parameters())
    is_shared = isinstance(run, Calling) and dtype == "float32" and not is_autocast
    own = _OwnRun(copied(model, torch.float32 if is_autocast else low, is_shared=is_shared), forcing)
    steps = Steps(dict(enumerate(forcing.pairs)))
    cast = torch.autocast("cpu", dtype=low) if is_autocast else nullcontext()
    with raised_by_the_model(), cast, steps.seen(own.model):
        own.run(run)
    forcing.found |= steps.judged(model)
    atoms, rounded_to = own.atoms, None if is_autocast or dtype == "float32" else low
    del own
    # Weights are rounded where they are, of modules that the run has in 16 bits.
    is_shared = is_shared and not any(atoms.values())
    wide = copied(model, torch.float64, rounded_to=rounded_to, is_shared=is_shared)
    exact = _ExactRun(wide, forcing, atoms, rounded_to)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exact.run(run)
    except Exception as error:
        reason = f"{type(error).__name__}: {error!s:.{_LONGEST_REASON}}"
        return forcing.whole(not_replayable("raised", reason=reason))
    finally:
        torch.set_default_dtype(before)
    # A function that ran in one precision alone (a fast path) has put the left's own value into that one.
    if forcing.without_unmet_functions():
        return force(model, run, forcing, policy=policy)
    return forcing.whole()


def run_as_it_is(model: Any, run: Callable[[Any], Any], forcing: Forcing) -> None:
    """Run a copy of a model in its own precision, which `force` does first; see there for what is taken and raised."""
    import torch

    with raised_by_the_model():
        _OwnRun(copied(unwrapped(model), torch.float32), forcing).run(run)


@contextmanager
def raised_by_the_model() -> Iterator[None]:
    """Say in a line what a user's model raises."""
    try:
        yield
    except MsdumpError:
        raise
    except Exception as error:
        missing = missing_package(error, need="the reference model")
        if missing is not None:
            raise missing from error
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"the reference model raised {type(error).__name__}: {reason:.{_LONGEST_REASON}}; mend it, or what it is "
            "given, so that it runs as it was recorded"
        ) from error


def names_of(model: Any) -> list[str]:
    """Return the names of a model's modules as recordings have them, its own first."""
    return list(named(unwrapped(model)))


def weights_read(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the weights that a run reads, as arrays; in training mode statistics are rather written than read."""
    written = {name for name, _ in model.named_buffers()} if model.training else set()
    for name, tensor in weights(model).items():
        if name not in written:
            yield name, array_of(tensor)


class _ForcedRun:
    """One run of a copy of the reference; a subclass says what happens to each tensor that has a partner."""

    # What the model is given, unless it is that of its weights.
    precision: Any = None

    def __init__(self, model: Any, forcing: Forcing) -> None:
        self.model, self.forcing = model, forcing
        self.names = {id(module): name for name, module in named(model).items()}
        self._calls: Counter[tuple[str, int]] = Counter()
        # Modules that have begun: how many of those inside of them came back.
        self._inner: list[tuple[Any, int]] = []
        self._gradients = Gradients(self._arrived, nullcontext)
        self._is_ours = False
        # Weights and buffers are the reference's own wherever they are given; whether a function has computed.
        self._weights = {one.untyped_storage()._cdata for one in (*model.parameters(), *model.buffers())}
        self._has_computed = False

    def run(self, run: Callable[[Any], Any]) -> None:
        with ExitStack() as stack:
            stack.callback(self.model.register_forward_pre_hook(self._cast, with_kwargs=True, prepend=True).remove)
            hooks = ForwardHooks(self.before, self._came_back, self._ended, wants_inputs=False)
            hooks.watch(self.model, stack)
            self.watch(stack)
            if self.forcing.has_gradients:
                stack.callback(self._gradients.remove)
                self._gradients.hook_parameters(self.model.named_parameters())
            run(self.model)

    def watch(self, stack: ExitStack) -> None:
        """Watch functions and the operations in them, where what they gave has partners."""
        from torch.optim import optimizer

        if self.forcing.has_functions:
            stack.callback(optimizer.register_optimizer_step_pre_hook(lambda *_: self._step(True)).remove)
            stack.callback(optimizer.register_optimizer_step_post_hook(lambda *_: self._step(False)).remove)
            stack.enter_context(around_functions(self._called))
            stack.enter_context(around_operations(self._operated))

    def _step(self, is_ours: bool) -> None:
        """What an optimizer computes is none of the model's."""
        self._is_ours = is_ours

    def _operated(self, func: Any, args: Any, kwargs: Any) -> Any:
        self._has_computed |= not self._is_ours and computes(func)
        return func(*args, **kwargs)

    def met(self, place: ForcedPlace, tensor: Any) -> None:
        """Do something with a tensor that has a partner, before the left's takes its place."""
        raise NotImplementedError

    def gave(self, name: str, tensors: list[Any]) -> None:
        """Do something with what a module gave back in which no other one ran, before anything takes its place."""

    def before(self, module: Any, args: Any, kwargs: Any, is_changed: bool) -> Any:
        """Is called before any module runs; returns what it is given."""
        del is_changed
        given = args, kwargs
        if id(module) in self.names:
            if self._inner and not is_backward() and not getattr(module, "inplace", False):
                given = self._given(self.names[id(module)], given)
            self._inner.append((module, 0))
        return given

    def _ended(self, module: Any) -> int:
        """Return how many modules ran inside of one that is over."""
        while self._inner:
            one, count = self._inner.pop()
            if one is module:
                if self._inner:
                    outer, known = self._inner[-1]
                    self._inner[-1] = outer, known + 1
                return count
        return 0

    def _came_back(self, module: Any, result: Any, is_changed: bool) -> Any:
        del is_changed
        name = self.names.get(id(module))
        inner = self._ended(module)
        if name is None or is_backward():
            return None
        with self.ours():
            if not inner:
                self.gave(name, leaves(result, is_tensor))
            return self._put_all(name, result)

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a function; is called for every one that no other function calls."""
        kind = function_name(func)
        if kind is None or self._is_ours or is_backward():
            return func(*args, **kwargs)
        label = f"{self.names[id(self._inner[-1][0])] if self._inner else 'outside'}/{kind}"
        is_in_place = kind in _IN_PLACE or (kind.endswith("_") or kwargs.get("inplace") or "out" in kwargs)
        if not is_in_place and kind not in _PASSING:
            with self.ours():
                args, kwargs = self._given(label, (args, kwargs))
        self._has_computed = False
        result = func(*args, **kwargs)
        if not self._has_computed:
            return result
        with self.ours():
            if not is_in_place:
                return self._put_all(label, result)
            for slot, tensor in enumerate(leaves(args[:1] if kind == "setitem" else result, is_tensor)):
                left = self._put(label, slot, tensor)
                if left is not tensor and not left.requires_grad:
                    tensor.copy_(left)
                    self.also_placed(tensor, left)
            return result

    def _put_all(self, label: str, result: Any) -> Any:
        """Return the left's tensors in the place of those that something gave back."""
        slots = count()
        changed = with_leaves("", result, is_tensor, lambda _, tensor: self._put(label, next(slots), tensor))
        if self.forcing.has_gradients:
            self._gradients.hook_outputs(label, leaves(changed, is_tensor))
        return changed

    def _given(self, label: str, given: Any) -> Any:
        """Return what something is given, the left's own inputs in their place where it recorded them."""
        call, slots = self._calls[label, 0], count()
        if not (known := self.forcing.inputs(label, call)) or known != len(leaves(given, is_tensor)):
            return given

        def replaced(_: str, tensor: Any) -> Any:
            place = ForcedPlace(label, next(slots), call, "input")
            return tensor if tensor.untyped_storage()._cdata in self._weights else self._replaced(place, tensor)

        return with_leaves("", given, is_tensor, replaced)

    def _put(self, label: str, slot: int, tensor: Any) -> Any:
        """Return the left's tensor for one that something gave back."""
        place = ForcedPlace(label, slot, self._calls[label, slot])
        self._calls[label, slot] += 1
        return self._replaced(place, tensor)

    def _replaced(self, place: ForcedPlace, tensor: Any) -> Any:
        """Return the left's tensor for one of the reference's, through which its gradient goes on; else itself."""
        import torch

        is_output = place.io == "output"
        if is_output and self.forcing.wants(place):
            self.met(place, tensor)
        read = self.forcing.values(place, tuple(tensor.shape), kind=_kind_of(tensor))
        if read is None:
            return tensor
        left = _laid_out_as(tensor, torch.from_numpy(np.require(read[0], requirements="W")))
        if not is_output:
            if torch.equal(left, tensor) and self.is_left_s(tensor):
                return tensor
            self.met(place, tensor)
        name = self.forcing.left_name(place)
        self.placed(left, name, read[1])
        if not (torch.is_grad_enabled() and tensor.requires_grad):
            return left
        put = _put_function().apply(tensor, left)
        self.placed(put, name, read[1])
        return put

    def is_left_s(self, tensor: Any) -> bool:
        """Whether nothing has been computed since a tensor was put in."""
        del tensor
        return True

    def placed(self, tensor: Any, name: str, dtype: str) -> None:
        """Is called with a tensor of the left that was put in."""

    def also_placed(self, tensor: Any, left: Any) -> None:
        """Is called with a tensor that holds what was put in from now on."""

    def given(self, tensor: Any) -> Any:
        """Return what the model is to be given for an input."""
        return tensor

    def _arrived(self, label: str, slot: int, gradient: Any) -> Any:
        """Judge a gradient; the one of an output gives way to the left's."""
        if gradient is None:
            return None
        with self.ours():
            changed = self._put(label, slot, gradient.detach())
        return changed if label.endswith("/grad_output") else None

    def _cast(self, _: Any, args: Any, kwargs: Any) -> Any:
        """Bring what the model is given to its device and precision."""
        import torch

        dtype = self.precision or next(
            (one.dtype for one in self.model.parameters() if one.is_floating_point()), torch.float32
        )

        def cast(tensor: Any) -> Any:
            tensor = tensor.cpu()
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        self._inner.clear()
        with self.ours():
            return with_leaves("", (args, kwargs), is_tensor, lambda _, one: self.given(cast(one)))

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Operations that run now are none of the model's."""
        outer, self._is_ours = self._is_ours, True
        try:
            yield
        finally:
            self._is_ours = outer


def _kind_of(tensor: Any) -> str:
    return "c" if tensor.is_complex() else "f" if tensor.is_floating_point() else "i"


def _laid_out_as(tensor: Any, values: Any) -> Any:
    """Return values with the type and the strides of a tensor; PyTorch chooses kernels by them."""
    import torch

    axes = sorted((stride, length) for stride, length in zip(tensor.stride(), tensor.shape, strict=True) if length > 1)
    # Elements that share memory, as those of an expanded tensor, cannot each have a value.
    extents = [0, *accumulate(stride * (length - 1) for stride, length in axes)]
    is_apart = all(stride > extent for (stride, _), extent in zip(axes, extents, strict=False))
    like = torch.empty_strided if is_apart else torch.empty
    layout = (tensor.shape, tensor.stride()) if is_apart else (tensor.shape,)
    return like(*layout, dtype=tensor.dtype).copy_(values)


class _OwnRun(_ForcedRun):
    """The reference in the left's precision: what rounding alone does to each tensor."""

    def __init__(self, model: Any, forcing: Forcing) -> None:
        super().__init__(model, forcing)
        # What modules gave back in which no other one ran: a 16-bit type, else None.
        self.atoms: dict[str, Any] = {}

    def met(self, place: ForcedPlace, tensor: Any) -> None:
        import torch

        plain = tensor.detach()
        self.forcing.keep(place, (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy())

    def gave(self, name: str, tensors: list[Any]) -> None:
        """Note where the run rounds to 16 bits."""
        self.atoms[name] = next((tensor.dtype for tensor in tensors if tensor.dtype in half_types()), None)


class _ExactRun(_ForcedRun):
    """The reference in float64, of weights and inputs that are rounded where the run rounded them."""

    def __init__(self, model: Any, forcing: Forcing, atoms: dict[str, Any], low: Any) -> None:
        import torch

        super().__init__(model, forcing)
        self.precision = torch.float64
        self._atoms, self._low = atoms, low
        self._unit = rounding_unit("float32" if low is None else str(low).removeprefix("torch."))
        # What went into a tensor, by its memory, which is kept weakly.
        self._marks: dict[int, tuple[Any, Marks]] = {}
        self._most_marks = _FEW_MARKS
        # Weights of modules that run, which are in float64 as long, and what they were before.
        self._widened: list[tuple[Any, Any, Any]] = []
        # What makes whole numbers of floats, by the memory of these.
        self._ties: dict[int, tuple[Any, Ties]] = {}

    def watch(self, stack: ExitStack) -> None:
        """See every operation, and round what modules are given."""
        super().watch(stack)
        if not self.forcing.has_functions:
            stack.enter_context(around_operations(self._operated))

    def before(self, module: Any, args: Any, kwargs: Any, is_changed: bool) -> Any:
        self._widen(module)
        args, kwargs = super().before(module, args, kwargs, is_changed)
        return self._round(module, args), kwargs

    def _widen(self, module: Any) -> None:
        """Bring a module's own weights to float64 until it is over: of a large model all at once fill the memory."""
        import torch

        for one in module.parameters(recurse=False) if id(module) in self.names else ():
            if one.dtype is torch.float32:
                self._widened.append((module, one, one.data))
                with self.ours():
                    one.data = one.data.double()
                self._weights.add(one.untyped_storage()._cdata)

    def _ended(self, module: Any) -> int:
        count = super()._ended(module)
        active = {id(one) for one, _ in self._inner}
        while self._widened and id(self._widened[-1][0]) not in active:
            _, one, narrow = self._widened.pop()
            self._weights.discard(one.untyped_storage()._cdata)
            one.data = narrow
        return count

    def _given(self, label: str, given: Any) -> Any:
        given = super()._given(label, given)
        return self._round(self._inner[-1][0], given) if "/" in label and self._inner else given

    def met(self, place: ForcedPlace, tensor: Any) -> None:
        """Judge what the left has by it."""
        values, marks = tensor.detach().numpy(), self._marks_of(tensor)
        if place.io == "output":
            _, ties = self._ties.get(tensor.untyped_storage()._cdata, (None, None))
            self.forcing.judge(place, values, marks, ties=ties)
            return
        active = [self.names[id(module)] for module, _ in reversed(self._inner)]
        ran = marks.modules | marks.around
        inside = [name for name in active[:-1] if all(f"{one}.".startswith(f"{name}.") for one in ran)]
        around = [ForcedPlace(name, 0, self._calls[name, 0]) for name in (*inside, *active[-1:])]
        self.forcing.judge_input(place, values, marks, around)

    def gave(self, name: str, tensors: list[Any]) -> None:
        for tensor in tensors:
            self._mark(tensor, self._marks_of(tensor) | Marks(frozenset({name})))

    def is_left_s(self, tensor: Any) -> bool:
        marks = self._marks_of(tensor)
        return marks._replace(after=frozenset(), is_wide=False) == Marks()

    def placed(self, tensor: Any, name: str, dtype: str) -> None:
        """Nothing of the reference is in a tensor of the left."""
        self._mark(tensor, Marks(is_wide=dtype in ("float32", "float64"), after=frozenset({name})))

    def also_placed(self, tensor: Any, left: Any) -> None:
        self._mark(tensor, self._marks_of(left))

    def given(self, tensor: Any) -> Any:
        return through(tensor, self._low) if self._low is not None and tensor.is_floating_point() else tensor

    def _round(self, module: Any, args: Any) -> Any:
        """Round the weights and inputs of a module whose output the run has in 16 bits, as autocast does."""
        dtype = self._atoms.get(self.names.get(id(module), ""))
        weights = [*module.parameters()] if dtype is not None else []
        if dtype is None or self._low is not None or not any(weight.ndim > 1 for weight in weights):
            return args
        with self.ours():
            for weight in weights:
                # Where it is: memory tells weights from what is computed.
                weight.data.copy_(weight.data.to(dtype))
            return floats_through(args, dtype)

    def _operated(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation in float64, and note what went into what it gives."""
        if self._is_ours:
            return func(*args, **kwargs)
        self._has_computed |= computes(func)
        asked = kwargs.get("dtype")
        result, marks = in_double(func, args, kwargs)
        for tensor in leaves((args, kwargs), is_tensor):
            marks |= self._marks_of(tensor)
        if not computes(func):
            return result
        # What runs now belongs to no module that the run has as one operation.
        is_between = not self._inner or self.names[id(self._inner[-1][0])] not in self._atoms
        if is_between and self._inner:
            marks = marks._replace(around=marks.around | {self.names[id(self._inner[-1][0])]})
        if asked is not None:
            marks = marks._replace(is_wide=asked not in half_types())
        if asked in half_types() or (self._low is not None and not marks.is_wide and is_between):
            result = rounded(func, result, asked if asked in half_types() else self._low)
        for slot, tensor in enumerate(leaves(result, is_tensor)):
            self._mark(tensor, marks)
            self._keep_ties(tensor, slot, func, args, kwargs)
        return result

    def _keep_ties(self, tensor: Any, slot: int, func: Any, args: Any, kwargs: Any) -> None:
        """Note what a whole number would be, or a float on the way to one, where rounding moves what it is made of."""
        from torch.multiprocessing.reductions import StorageWeakRef

        operation = described(func)
        given = next((one for one in leaves((args, kwargs), is_tensor) if one.is_floating_point()), None)
        if given is None or not operation.is_functional:
            return
        _, known = self._ties.get(given.untyped_storage()._cdata, (None, None))
        is_whole = not (tensor.is_floating_point() or tensor.is_complex())
        if is_whole or operation.name in TO_WHOLE or (known is not None and operation.name in BESIDE_WHOLE):
            # Each holds what it was made of.
            self._ties = {address: one for address, one in self._ties.items() if not one[0].expired()}
            storage = tensor.untyped_storage()
            moved = known if known is not None else self._unit
            self._ties[storage._cdata] = (
                StorageWeakRef(storage),
                partial(at_ties, func, (args, kwargs), given, slot, moved),
            )

    def _marks_of(self, tensor: Any) -> Marks:
        _, marks = self._marks.get(tensor.untyped_storage()._cdata, (None, Marks()))
        return marks

    def _mark(self, tensor: Any, marks: Marks) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        if len(self._marks) > self._most_marks:
            # What is left of a freed tensor stands in memory that the next could use: a ViT took twice as much.
            self._marks = {address: one for address, one in self._marks.items() if not one[0].expired()}
            self._most_marks = 2 * len(self._marks) + _FEW_MARKS
        # Kept weakly: the address of memory is not used again as long as something refers to it.
        self._marks[storage._cdata] = StorageWeakRef(storage), marks


@cache
def _put_function() -> Any:
    import torch

    class Put(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
        """Gives the left's tensor, and lets the gradient through to what it stands for."""

        @staticmethod
        def forward(_: Any, __: Any, left: Any) -> Any:
            return torch.empty_strided(left.shape, left.stride(), dtype=left.dtype).copy_(left)

        @staticmethod
        def backward(_: Any, gradient: Any) -> Any:
            return gradient, None

    return Put
