"""Programs of ranks: the loops of SimAI's workload layer over the layers of a file."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from hocket.errors import InputError
from hocket.training.layers import Exchange, GradientExchange, Layer, backward_pass, forward_pass
from hocket.training.pipeline import Schedule, passes
from hocket.training.program import START, Done, Program
from hocket.training.simai.degrees import Communicators
from hocket.training.simai.source import Collective, Row, WorkloadText
from hocket.training.workload import Operation

# AICB begins each microbatch with the first of these layers and puts the second one after the last.
_FIRST_OF_MICROBATCH = "embedding_layer"
_AFTER_MICROBATCHES = "cross_entropy"


@dataclass(frozen=True, slots=True)
class Microbatches:
    """The layers `before` all microbatches, those of `each` microbatch, and those `after` all."""

    before: range
    each: tuple[range, ...]
    after: range


def microbatches_of(
    text: WorkloadText, pipeline: int, requested: int | None, schedule: Schedule
) -> Microbatches:
    """The layers of the first `requested` microbatches, or of all.

    With one stage and in the order of the file microbatches make no difference, so all layers count as one.

    Raises `InputError` if the file's microbatches cannot be distinguished.
    """
    rows, count = text.rows, text.header.microbatches
    # Files of other generators than AICB have no names that separate microbatches; these must still run.
    if pipeline == 1 and requested is None and schedule == "gpipe":
        return Microbatches(range(0), (range(len(rows)),), range(len(rows), len(rows)))
    starts = [place for place, row in enumerate(rows) if row.name == _FIRST_OF_MICROBATCH]
    if len(starts) != count:
        raise InputError(
            f"{text.path}: ga is {count} microbatches, but {len(starts)} layers are named "
            f"{_FIRST_OF_MICROBATCH}, with which each must begin"
        )
    # Nothing marks the end of the last microbatch: it is as long as the one before. A single microbatch ends
    # at the layer that AICB puts after all of them.
    if count > 1:
        end = min(starts[-1] + (starts[-1] - starts[-2]), len(rows))
    else:
        ends = (place for place, row in enumerate(rows) if row.name.startswith(_AFTER_MICROBATCHES))
        end = next((place for place in ends if place > starts[0]), len(rows))
    each = [range(start, stop) for start, stop in zip(starts, [*starts[1:], end], strict=True)]
    return Microbatches(range(starts[0]), tuple(each[:requested]), range(end, len(rows)))


class Loop:
    """Writes the programs of the ranks of a file."""

    def __init__(self, text: WorkloadText, communicators: Communicators) -> None:
        self._text = text
        self._communicators = communicators
        self._layers = [self._layers_of(row) for row in text.rows]

    def micro(self) -> tuple[Operation, ...]:
        """Only the exchanges of weight gradients, one after another, as in a benchmark."""
        program = Program()
        done = START
        for row in self._text.rows:
            exchange = self._exchange(row.weight_gradient)
            if exchange is not None:
                done = program.collective(
                    row.name, exchange.kind, exchange.bytes, exchange.communicator, done
                )
        return program.operations

    def inference(self) -> tuple[Operation, ...]:
        """The forward pass only."""
        program = Program()
        forward_pass(program, self._all(range(len(self._layers))), START)
        return program.operations

    def recommendation(self, last_bottom: int) -> tuple[Operation, ...]:
        """Forward and backward through a DLRM, whose first layer is the embedding tables.

        Looked-up vectors are exchanged while the bottom layers compute, up to the one at index `last_bottom`.
        Their gradients are exchanged after the backward pass of the top layers, while that of the bottom
        layers continues.
        """
        program = Program()
        # No buckets: SimAI exchanges layer by layer.
        gradients = GradientExchange(program, None)
        # A policy of a DLRM does not block, so the row is a single layer.
        (tables,) = self._layers[0]
        bottom, top = range(1, last_bottom + 1), range(last_bottom + 1, len(self._layers))
        looked_up = program.compute(f"{tables.name} forward", tables.forward_ps, START)
        exchanged = self._add(program, f"{tables.name} forward", tables.forward_exchange, looked_up)
        done = forward_pass(program, self._all(bottom), looked_up)
        done = forward_pass(program, self._all(top), done + exchanged)
        done = backward_pass(program, self._all(top), done, gradients)
        exchanged = self._add(program, f"{tables.name} input gradient", tables.input_gradient_exchange, done)
        done = backward_pass(program, self._all(bottom), done, gradients)
        done = program.compute(f"{tables.name} weight gradient", tables.weight_gradient_ps, done)
        gradients.add(tables, done)
        self._update(program, range(len(self._layers)), done + exchanged + gradients.finish())
        return program.operations

    def training(
        self, stage: int, stages: int, schedule: Schedule, microbatches: Microbatches
    ) -> tuple[Operation, ...]:
        """The forward and backward passes of one stage, with its messages from and to its neighbours.

        Layers after all microbatches run when the last microbatch has finished its forward pass; the backward
        pass of the layers before all microbatches comes at the end.
        """
        program = Program()
        gradients = GradientExchange(program, None)
        neighbours = _Neighbours(
            program, self._text.header.pipeline_bytes, self._communicators.place("pipeline"), stages
        )
        last = len(microbatches.each) - 1
        done = self._forward(program, microbatches.before, START)
        for kind, microbatch in passes(schedule, stage, stages, last + 1):
            suffix = f" #{microbatch}" if last else ""
            layers = microbatches.each[microbatch]
            if kind == "forward":
                done = neighbours.receive("activations", stage - 1, microbatch, done)
                done = self._forward(program, layers, done, suffix)
                neighbours.send("activations", stage + 1, microbatch, done)
                if microbatch == last:
                    done = self._forward(program, microbatches.after, done)
                    done = self._backward(program, microbatches.after, done, gradients)
            else:
                done = neighbours.receive("gradients", stage + 1, microbatch, done)
                done = self._backward(program, layers, done, gradients, suffix)
                neighbours.send("gradients", stage - 1, microbatch, done)
        done = self._backward(program, microbatches.before, done, gradients)
        used = (microbatches.before, *microbatches.each, microbatches.after)
        self._update(program, chain.from_iterable(used), done + gradients.finish())
        return program.operations

    def _forward(self, program: Program, places: range, done: Done, suffix: str = "") -> Done:
        return forward_pass(program, self._all(places), done, suffix)

    def _backward(
        self, program: Program, places: range, done: Done, gradients: GradientExchange, suffix: str = ""
    ) -> Done:
        """The backward pass, with forward passes repeated from the file's checkpoints."""
        end = places.stop
        for initiating in sorted(set(self._text.header.initiates) & set(places), reverse=True):
            done = backward_pass(program, self._all(range(initiating + 1, end)), done, gradients, suffix)
            # Up to the initiating layer and without it: Workload.cc turns back as soon as it reaches it.
            checkpoint = max(each for each in self._text.header.checkpoints if each <= initiating)
            done = self._forward(program, range(checkpoint, initiating), done, f"{suffix} again")
            end = initiating + 1
        return backward_pass(program, self._all(range(places.start, end)), done, gradients, suffix)

    def _update(self, program: Program, places: Iterable[int], done: Done) -> None:
        # SimAI and ASTRA-sim add the update time after an exchange, so layers without one have no update.
        rows = [self._text.rows[place] for place in places]
        update_ps = sum(row.update_ps for row in rows if row.weight_gradient is not None)
        program.compute("update", update_ps, done)

    def _all(self, places: range) -> list[Layer]:
        return [layer for place in places for layer in self._layers[place]]

    def _layers_of(self, row: Row) -> tuple[Layer, ...]:
        """A row as one layer, or as two if the gradient of weights must wait for the exchange of the gradient
        of inputs: the backward pass comes to the second of them first.
        """
        forward, inputs = self._exchange(row.forward), self._exchange(row.input_gradient)
        weights = self._exchange(row.weight_gradient)
        if not row.policy.is_blocking:
            return (
                Layer(
                    row.name,
                    row.forward_ps,
                    row.input_gradient_ps,
                    row.weight_gradient_ps,
                    forward_exchange=forward,
                    input_gradient_exchange=inputs,
                    weight_gradient_exchange=weights,
                ),
            )
        return (
            Layer(row.name, 0, 0, row.weight_gradient_ps, weight_gradient_exchange=weights),
            Layer(
                row.name,
                row.forward_ps,
                row.input_gradient_ps,
                forward_exchange=forward,
                input_gradient_exchange=inputs,
            ),
        )

    def _exchange(self, collective: Collective | None) -> Exchange | None:
        place = self._communicators.place(collective.group) if collective is not None else None
        if collective is None or place is None:
            return None
        return Exchange(collective.kind, collective.bytes, place)

    @staticmethod
    def _add(program: Program, name: str, exchange: Exchange | None, done: Done) -> Done:
        if exchange is None:
            return done
        return program.collective(
            f"{name} {exchange.kind}", exchange.kind, exchange.bytes, exchange.communicator, done
        )


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The messages of microbatches with the neighbours of a stage; none at the ends of the pipeline.

    `place` is the index of the pipeline's group among a rank's communicators; within the group, the index of
    a stage is its number.
    """

    program: Program
    bytes: int
    place: int | None
    stages: int

    def receive(self, what: str, stage: int, microbatch: int, done: Done) -> Done:
        """Waits for the message of `stage`."""
        if self.place is None or not 0 <= stage < self.stages:
            return done
        name = f"{what} recv #{microbatch}"
        return self.program.recv(name, self.bytes, self.place, stage, microbatch, done)

    def send(self, what: str, stage: int, microbatch: int, done: Done) -> None:
        """Sends to `stage`, which overlaps with what follows."""
        if self.place is not None and 0 <= stage < self.stages:
            name = f"{what} send #{microbatch}"
            self.program.send(name, self.bytes, self.place, stage, microbatch, done)
