"""Operators of a decode step on a CPU: references, and what passes for right. Most need torch."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

from workers.bench.cases.step import DecodeAttention
from workers.bench.operators import attention
from workers.bench.operators.attention_reference import rows_of

SCRIPT = Path(__file__).with_name("step_in_torch.py")
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def said(torch_python):
    done = subprocess.run([torch_python, SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CHECKS)
def test_in_torch(said, name):
    assert said[name] is None, said[name]


def test_tensor_cores_are_asked_for_where_heads_share_the_cache():
    def variants(q_heads, kv_heads, major):
        return attention.decode_variants(DecodeAttention(1, 4096, q_heads, kv_heads, 128, "bf16"), major)

    assert variants(32, 32, 9) == [None]
    assert variants(32, 8, 9) == [None, "tensor_cores"]
    assert variants(32, 8, 10) == [None, "tensor_cores", "trtllm-gen"]


def test_prefill_backends_follow_the_architecture():
    assert attention.prefill_backends(9) == ["fa2", "fa3"]
    assert attention.prefill_backends(12) == ["fa2"]


def test_rows_of_a_sequence_follow_those_before_it():
    assert rows_of(12, 4, 3) == slice(9, 12)
