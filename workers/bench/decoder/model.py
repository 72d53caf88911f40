"""A decoder with random weights at a model's own shapes: prefill, and decode steps that a CUDA graph replays.

A step is what a server does for each token it gives: embedding, layers, head, the greedy choice, and a cache
one token longer. Needs torch.
"""

from __future__ import annotations

from typing import Any

from workers.bench import model_work
from workers.bench.decoder import weights as drawn
from workers.bench.decoder.attention import Capacity, GroupedAttention, LatentAttention
from workers.bench.decoder.comm import Comm
from workers.bench.decoder.dense import DenseGrouped, DenseLatent
from workers.bench.decoder.kernels import FlashInferKernels, Kernels, TorchKernels
from workers.bench.decoder.left_out import sentences
from workers.bench.decoder.marks import part
from workers.bench.decoder.router import Counts, choice
from workers.bench.experts.base import Backend, Experts
from workers.bench.model_work import Layout
from workers.bench.operators import no_jit
from workers.bench.operators.asking import in_its_words
from workers.bench.operators.base import UnsupportedError

__all__ = ["ATTENTION", "Capacity", "Decoder"]

ATTENTION = ("flashinfer", "torch")


class Decoder:
    """One rank's part of a model. `batch` and token tensors are of this rank's sequences; ranks of a gang
    call the same methods with the same sizes.

    `attention`: whose kernels serve norms, rotary embedding, attention and its cache. Raises UnsupportedError
    where libraries or shapes do not allow it.
    """

    def __init__(
        self,
        torch: Any,
        layout: Layout,
        *,
        attention: str,
        experts: Backend,
        comm: Comm,
        device: str,
        capacity: Capacity,
        seed: int,
    ) -> None:
        of = layout.model
        if attention not in ATTENTION:
            raise UnsupportedError(f"Attention by {attention[:40]}: expected one of {', '.join(ATTENTION)}.")
        self._torch = torch
        self._linear = torch.nn.functional.linear
        self.layout = layout
        self.capacity = capacity
        self.device = device
        self.seed = seed
        self._comm = comm
        self.name = f"{attention}+{experts.name}"
        self.left_out = sentences(of, attention)
        with torch.no_grad(), in_its_words():
            self._kernels, self._cache = _served(torch, layout, attention, capacity, device)
            self._attention: Any = (GroupedAttention if of.mla is None else LatentAttention)(
                torch, layout, self._kernels, self._cache
            )
            self.source = drawn.Source(torch, layout, comm.rank, device, seed)
            self._draw(experts)
        # Ranks that share sequences are fed the same, the others something else.
        self._drawing = torch.Generator(device=device).manual_seed(seed + comm.rank // layout.tp)
        self._counts = Counts(torch, layout.layers, of.experts, device)
        self._choose = choice(torch, of, self._counts, device)

        ints = {"dtype": torch.int32}
        # What a step computes into, and what it is told, lies where a captured graph finds it.
        #: positions of the next tokens, and behind them the number of the step
        self._state = torch.zeros(capacity.batch + 1, device=device, **ints)
        self._host_state = torch.zeros(capacity.batch + 1, pin_memory=device != "cpu", **ints)
        self._copied = torch.cuda.Event() if device != "cpu" else None
        self._numbered = self._counted = 0
        self._batch = self._length = 0
        self._graph: Any = None

    def _draw(self, experts: Backend) -> None:
        """Weights, layer by layer; those of routed experts are the backend's from there on."""
        layout, source = self.layout, self.source
        layer = drawn.expert_layer(layout, self._comm.rank)
        batch, context = self.capacity.batch, self.capacity.context
        tokens = max(batch, model_work.prefill_tokens(batch, context))
        self._embedding = source.embedding()
        self._layers: list[drawn.Layer] = []
        self._experts: list[Experts | None] = []
        for index in range(layout.layers):
            made = source.layer(index)
            ready = None
            if isinstance(made.mlp, drawn.Routed) and made.mlp.experts is not None:
                ready = experts.make(self._torch, layer, made.mlp.experts, tokens * layout.ep)
                made = drawn.without_experts(made)
            self._layers.append(made)
            self._experts.append(ready)
        self._final_norm = source.norm("final_norm", layout.model.hidden)
        self._head = source.head()
        #: bytes of all weights of this rank
        self.weight_bytes = source.drawn

    def _prefill_sequences(self, length: int) -> int:
        return max(1, min(self.capacity.batch, model_work.PREFILL_TOKENS // length))

    # Phases

    def prefill(self, tokens: Any) -> None:
        """Takes in [batch, length] int64 tokens, from an empty cache on; the next step is fed the greedy
        choice of what follows, whose logits are `last_logits`."""
        torch = self._torch
        batch, length = tokens.shape
        with torch.no_grad():
            self._resize(batch, length)
            self._wait()
            self._number(length)
            at_once = self._prefill_sequences(length)
            logits = []
            for first in range(0, batch, at_once):
                chunk = tokens[first : first + at_once]
                if first:
                    self._wait()
                positions = self._plan_prefill(first, len(chunk), length)
                hidden, residual = self._through(chunk.flatten(), positions)
                ends = slice(length - 1, None, length)
                logits.append(self._logits_of(hidden[ends].contiguous(), residual[ends].contiguous()))
            self._logits = torch.cat(logits) if len(logits) > 1 else logits[0]
            with part("head"):
                self._take_best(self._logits)
            self._counted += 1

    def begin(self, batch: int, context: int) -> None:
        """Random content in the caches of `batch` sequences up to `context` tokens, and random current
        tokens; counts begin anew. Steps launch kernel by kernel until they are captured."""
        torch = self._torch
        with torch.no_grad():
            self._graph = None
            self._resize(batch, context)
            self._cache.fill()
            self._tokens.copy_(self.random_tokens(batch))
            self.count_anew()
            self._plan()

    def random_tokens(self, *shape: int) -> Any:
        """int64, on this decoder's device: the same on ranks that share sequences, and others elsewhere."""
        vocab = self.layout.model.vocab
        return self._torch.randint(0, vocab, shape, device=self.device, generator=self._drawing)

    def after_layers(self, tokens: Any, layers: int) -> Any:
        """[batch, length] int64 tokens → [batch, length, hidden] of the residual stream behind the first
        `layers`, their content in the cache."""
        batch, length = tokens.shape
        with self._torch.no_grad():
            self._resize(batch, length)
            self._wait()
            self._number(length)
            positions = self._plan_prefill(0, batch, length)
            added, residual = self._through(tokens.flatten(), positions, layers)
            return (residual + added).unflatten(0, (batch, length))

    def feed(self, tokens: Any) -> None:
        """[batch] int64: what the next step takes in, in place of what the last one chose."""
        self._tokens.copy_(tokens)

    def step(self) -> Any:
        """One token for every sequence: [batch] int64, in a tensor that the next step overwrites.

        Waits for the step before the last one at most, whose plan must have left the host's buffers.
        """
        with self._torch.no_grad():
            self._plan()
            if self._graph is not None:
                self._graph.replay()
                self._logits = self._captured_logits
            else:
                self._forward()
            self._length += 1
            self._counted += 1
        return self._tokens

    def capture(self) -> None:
        """A CUDA graph of a step of the batch begun; steps replay it from here on."""
        torch = self._torch
        if self.device == "cpu":
            raise UnsupportedError("A CPU has no CUDA graphs.")
        with torch.no_grad():
            self._graph = None  # the memory of another one is free again
            tokens = self._tokens.clone()
            self._plan()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):  # libraries load, compile and make room in their first calls
                    self._forward()
                    self._tokens.copy_(tokens)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Other threads, NCCL's watchdog among them, may ask the driver meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._forward()
            self._graph, self._captured_logits = graph, self._logits
            self.count_anew()

    # What is seen of it

    @property
    def last_logits(self) -> Any:
        """[batch, vocab] float32 of the last step or prefill."""
        vocab = self.layout.model.vocab
        if self.layout.tp == 1:
            return self._logits.float()
        parts = self._comm.all_gather(self._logits, "tp").unflatten(0, (self.layout.tp, -1))
        return parts.transpose(0, 1).flatten(1)[:, :vocab].float()

    @property
    def kv_bytes(self) -> int:
        """Of this rank's cache, as far as the batch fills it now."""
        return model_work.kv_bytes(self.layout, self._batch * self.layout.ep, self._length)

    @property
    def context(self) -> int:
        """Tokens of each sequence in the cache."""
        return self._length

    def count_anew(self) -> None:
        """`experts_hit` and `routing` count from here on."""
        self._counts.clear()
        self._counted = 0

    def experts_hit(self) -> float:
        """Mean number of distinct experts, of all ranks, that a layer touched in a step or prefill."""
        moe = self.layout.moe_layers * self._counted
        return float(self._counts.touched.sum()) / moe if moe else 0.0

    def routing(self) -> list[int]:
        """Rows that each expert got, of all ranks and layers."""
        rows: list[int] = self._counts.rows.sum(0).tolist()
        return rows

    # The host's part

    def _resize(self, batch: int, length: int) -> None:
        if not 0 < batch <= self.capacity.batch or not 0 < length <= self.capacity.context:
            raise ValueError(
                f"{batch} sequences of {length} tokens: expected up to {self.capacity.batch} of"
                f" {self.capacity.context}."
            )
        if batch != self._batch:
            self._batch = batch
            self._graph = None
            self._tokens = self._torch.zeros(batch, dtype=self._torch.int64, device=self.device)
            self._wait()
            self._cache.resize(batch)
        self._length = length

    def _plan(self) -> None:
        if self._length >= self.capacity.context:
            raise ValueError(f"The cache is full: it holds {self.capacity.context} tokens of each sequence.")
        self._wait()
        self._number(self._length)
        self._cache.plan(self._length + 1)
        self._planned()

    def _plan_prefill(self, first: int, count: int, length: int) -> Any:
        positions = self._cache.plan_prefill(first, count, length)
        self._planned()
        if isinstance(self._attention, LatentAttention):
            self._attention.prefill_of(length)
        return positions

    def _number(self, position: int) -> None:
        self._numbered += 1
        self._host_state.fill_(position)
        self._host_state[-1] = self._numbered
        self._state.copy_(self._host_state, non_blocking=True)

    def _wait(self) -> None:
        """Until the device has read what was planned last: pinned memory is copied when its turn comes, and
        must not be written before. The step planned then may still run."""
        if self._copied is not None:
            self._copied.synchronize()

    def _planned(self) -> None:
        if self._copied is not None:
            self._copied.record()

    # The device's part

    def _forward(self) -> None:
        positions = self._state[: self._batch]
        self._cache.prepare(positions)
        hidden, residual = self._through(self._tokens, positions)
        self._logits = self._logits_of(hidden, residual)
        with part("head"):
            self._take_best(self._logits)

    def _through(self, tokens: Any, positions: Any, layers: int | None = None) -> tuple[Any, Any]:
        """What the last of the layers adds, and the residual stream before it: [rows, hidden] each."""
        kernels = self._kernels
        with part("embedding"):
            residual = self._torch.nn.functional.embedding(tokens, self._embedding)
        added = None
        for index, layer in enumerate(self._layers[:layers]):
            with part("norms"):
                if added is None:
                    hidden = kernels.norm(residual, layer.attention_norm)
                else:
                    hidden = added
                    kernels.add_norm_(hidden, residual, layer.attention_norm)
            with part("attention"):
                hidden = self._attention(index, layer.attention, hidden, positions)
            self._summed(hidden)
            with part("norms"):
                kernels.add_norm_(hidden, residual, layer.mlp_norm)
            if isinstance(layer.mlp, drawn.Gated):
                with part("dense"):
                    added = self._gated(layer.mlp, hidden)
            else:
                added = self._routed(index, layer.mlp, hidden)
            self._summed(added)
        return added, residual

    def _summed(self, x: Any) -> None:
        if self.layout.tp > 1:
            with part("collectives"):
                self._comm.all_reduce_(x, "tp")

    def _gated(self, mlp: drawn.Gated, hidden: Any) -> Any:
        return self._linear(self._kernels.silu_and_mul(self._linear(hidden, mlp.gate_up)), mlp.down)

    def _routed(self, index: int, mlp: drawn.Routed, hidden: Any) -> Any:
        """Every rank sees the tokens of all `ep` groups, and computes its own experts' part of each."""
        everybody = hidden
        if self.layout.ep > 1:
            with part("collectives"):
                everybody = self._comm.all_gather(hidden, "ep")
        with part("router"):
            logits = self._linear(everybody, mlp.router, mlp.router_bias)
            ids, weights = self._choose(logits, index, self._state[-1:])
        experts = self._experts[index]
        assert experts is not None
        out = experts(everybody, ids, weights)
        if self.layout.ep > 1:
            with part("collectives"):
                out = self._comm.reduce_scatter(out, "ep")
        if mlp.shared is not None:
            with part("shared"):
                shared = self._kernels.silu_and_mul(self._linear(hidden, mlp.shared.gate_up))
                out.addmm_(shared, mlp.shared.down.t())
        return out

    def _logits_of(self, hidden: Any, residual: Any) -> Any:
        """[rows, vocab] of this rank's share of the vocabulary."""
        with part("norms"):
            self._kernels.add_norm_(hidden, residual, self._final_norm)
        with part("head"):
            return self._linear(hidden, self._head)[:, : self._vocabulary]

    @property
    def _vocabulary(self) -> int:
        """Of this rank's rows of the head, those that are no padding but on ranks that must send as much as
        the others."""
        return self._head.shape[0] if self.layout.tp > 1 else self.layout.model.vocab

    def _take_best(self, logits: Any) -> None:
        """The greedy choice, of the whole vocabulary, into the current tokens."""
        torch, tp = self._torch, self.layout.tp
        if tp == 1:
            torch.argmax(logits, -1, out=self._tokens)
            return
        rows = self._head.shape[0]
        first = self._comm.rank % tp * rows
        here = max(0, min(rows, self.layout.model.vocab - first))
        # The best of each rank and where it is: two floats, exact up to 2^24 tokens.
        pair = torch.full((len(logits), 2), float("-inf"), device=logits.device)
        if here:
            best, index = logits[:, :here].max(-1)
            pair[:, 0], pair[:, 1] = best, index + first
        with part("collectives"):
            pairs = self._comm.all_gather(pair, "tp").unflatten(0, (tp, -1))
        winner = pairs[..., 0].argmax(0, keepdim=True)
        self._tokens.copy_(pairs[..., 1].gather(0, winner)[0])


def _served(
    torch: Any, layout: Layout, attention: str, capacity: Capacity, device: str
) -> tuple[Kernels, Any]:
    """Kernels and the cache of one library."""
    of = layout.model
    if attention == "torch":
        dense = DenseGrouped if of.mla is None else DenseLatent
        return TorchKernels(torch, of), dense(torch, layout, capacity, device)
    if device == "cpu":
        raise UnsupportedError("FlashInfer has no kernels for a CPU.")
    library = no_jit.flashinfer(torch)
    if library is None:
        raise UnsupportedError("FlashInfer is not installed here.")
    from workers.bench.decoder.paged import PagedGrouped, PagedLatent

    paged = PagedGrouped if of.mla is None else PagedLatent
    return FlashInferKernels(library, of), paged(torch, library, layout, capacity, device)
