"""Files that are not as they should be: refused with file and line, or repaired and counted."""

import gzip
from pathlib import Path

import pytest

from ares.check.replay.trace import BadTrace, Trace
from ares.sim.traces.formats import FORMATS, read
from ares.sim.traces.formats.nodes import nodes_of

SWF = ["; MaxProcs: 8", *(f"{n} {10 * n} -1 {60 + n} 2 -1 -1 2 100 -1 1 {n % 2} 1 -1 1 -1 -1 -1" for n in range(1, 6))]
EASY = ["job_id,submit,run,procs,req_time,user", *(f"{n},{10 * n},{60 + n},2,100,{n % 2}" for n in range(1, 6))]
PHILLY = ["job_id,num_gpu,submit_time,duration", *(f"{n},1,{10 * n},{60 + n}" for n in range(1, 6))]
DEADLINES = [
    ",job_name,norm_job_submit_time,ddl,A100,V100",
    *(f"{n},job{n},{10 * n},{'inf' if n % 2 else 1000},{60 + n},{120 + n}" for n in range(1, 6)),
]
PODS = [
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
    *(f"pod{n},1000,256,1,500,,LS,Running,{10 * n},{100 + 10 * n},{11 * n}" for n in range(1, 6)),
]
TABLES = {"swf": SWF, "easy": EASY, "philly": PHILLY, "deadlines": DEADLINES, "alibaba": PODS}
# Which column of a table is the submission, the run time; and one that nothing can be read without.
SUBMIT = {"swf": 1, "easy": 1, "philly": 2, "deadlines": 2, "alibaba": 8}
RUN = {"swf": 3, "easy": 2, "philly": 3, "deadlines": 4, "alibaba": 9}
NODES = nodes_of("2x8x4xA100")


def load(folder: Path, kind: str, lines: list[str], ending: str = "\n") -> Trace:
    path = folder / f"some.{'swf' if kind == 'swf' else 'csv'}"
    path.write_text("\n".join(lines) + ending)
    return read(path, kind, None if kind == "swf" else NODES)


def cells(kind: str, line: str) -> list[str]:
    return line.split() if kind == "swf" else line.split(",")


def changed(kind: str, line: str, column: int, text: str) -> str:
    parts = cells(kind, line)
    parts[column] = text
    return (" " if kind == "swf" else ",").join(parts)


@pytest.mark.parametrize("kind", TABLES)
def test_sound_files_need_no_repair(tmp_path: Path, kind: str) -> None:
    trace = load(tmp_path, kind, TABLES[kind])
    assert len(trace.jobs) == 5
    assert trace.warnings == ()
    assert [job.submit for job in trace.jobs] == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("kind", TABLES)
def test_the_format_is_seen_from_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace"
    path.write_text("\n".join(TABLES[kind]) + "\n")
    told, seen = read(path, kind, NODES), read(path, None, NODES)
    assert seen == told


@pytest.mark.parametrize("kind", TABLES)
def test_unsorted_lines_are_sorted_and_counted(tmp_path: Path, kind: str) -> None:
    lines = TABLES[kind]
    trace = load(tmp_path, kind, [lines[0], lines[3], lines[1], lines[2], lines[4], lines[5]])
    assert [job.submit for job in trace.jobs] == [10, 20, 30, 40, 50]
    assert trace.warnings == ("2 lines out of order: sorted",)


@pytest.mark.parametrize("kind", TABLES)
def test_a_line_that_breaks_off_is_named(tmp_path: Path, kind: str) -> None:
    lines = [*TABLES[kind][:-1], TABLES[kind][-1][:5]]
    with pytest.raises(BadTrace, match=r"some\.(swf|csv):6: \d+ of \d+ (fields|columns); the file may be cut off"):
        load(tmp_path, kind, lines, ending="")


@pytest.mark.parametrize("kind", TABLES)
def test_negative_run_times_are_left_out_and_counted(tmp_path: Path, kind: str) -> None:
    lines = list(TABLES[kind])
    for at in (2, 4):
        lines[at] = changed(kind, lines[at], RUN[kind], "-1")
    trace = load(tmp_path, kind, lines)
    assert [job.submit for job in trace.jobs] == [10, 30, 50]
    (warning,) = trace.warnings
    assert warning.startswith("2 jobs ")
    assert warning.endswith("run time: left out")


@pytest.mark.parametrize("kind", TABLES)
def test_negative_submissions_are_left_out_and_counted(tmp_path: Path, kind: str) -> None:
    lines = list(TABLES[kind])
    lines[1] = changed(kind, lines[1], SUBMIT[kind], "-5")
    trace = load(tmp_path, kind, lines)
    assert len(trace.jobs) == 4
    (warning,) = trace.warnings
    assert warning.startswith("1 job ")


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind in TABLES for text in ("soon", "''", "1e", "nan")])
def test_what_is_no_number_is_named_with_its_line(tmp_path: Path, kind: str, text: str) -> None:
    lines = list(TABLES[kind])
    lines[3] = changed(kind, lines[3], SUBMIT[kind], text)
    with pytest.raises(BadTrace, match=r"some\.(swf|csv):4: .*not a number"):
        load(tmp_path, kind, lines)


@pytest.mark.parametrize("kind", TABLES)
def test_a_number_too_large_for_anything_is_named_with_its_line(tmp_path: Path, kind: str) -> None:
    lines = list(TABLES[kind])
    lines[3] = changed(kind, lines[3], SUBMIT[kind], "1e18")
    with pytest.raises(BadTrace, match=r"some\.(swf|csv):4: .*is 1e18, beyond 1,000,000,000,000"):
        load(tmp_path, kind, lines)


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind != "swf"])
def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path, kind: str) -> None:
    at = SUBMIT[kind]
    lines = [",".join(part for n, part in enumerate(line.split(",")) if n != at) for line in TABLES[kind]]
    name = TABLES[kind][0].split(",")[at]
    with pytest.raises(BadTrace, match=rf"some\.csv:1: column {name} missing; there are .*job|pod"):
        load(tmp_path, kind, lines)


@pytest.mark.parametrize("kind", TABLES)
def test_ids_that_come_twice_count_once(tmp_path: Path, kind: str) -> None:
    lines = TABLES[kind]
    trace = load(tmp_path, kind, [*lines, lines[-1]])
    assert len(trace.jobs) == 5
    assert trace.warnings == ("1 job with the id of an earlier job: left out",)


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_not_utf8_is_named_with_line_and_column(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "some.swf"
    lines = [line.encode() for line in TABLES[kind]]
    lines[4] = lines[4][:3] + b"\xe9" + lines[4][3:]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(BadTrace, match=r"some\.swf:5: byte 0xe9 at column 4 is not UTF-8; convert the file"):
        read(path, kind, NODES)


def test_comments_of_old_logs_may_be_latin1(tmp_path: Path) -> None:
    path = tmp_path / "some.swf"
    path.write_bytes("; Kungliga Tekniska h\xf6gskolan\n".encode("latin-1") + "\n".join(SWF).encode() + b"\n")
    trace = read(path)
    assert len(trace.jobs) == 5
    assert trace.warnings == ("1 comment not in UTF-8: read as Latin-1",)


@pytest.mark.parametrize("kind", TABLES)
def test_gzip_is_read_and_broken_gzip_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "some.csv.gz"
    data = gzip.compress("\n".join(TABLES[kind] * 1).encode() + b"\n")
    path.write_bytes(data)
    assert len(read(path, kind, NODES).jobs) == 5
    path.write_bytes(data[: len(data) - 12])
    with pytest.raises(BadTrace, match=r"some\.csv\.gz:\d+: the compressed data breaks off .*; fetch the file again"):
        read(path, kind, NODES)
    path.write_bytes(data[:20] + bytes(len(data) - 20))
    with pytest.raises(BadTrace, match=r"some\.csv\.gz:\d+: the compressed data breaks off or is damaged"):
        read(path, kind, NODES)


@pytest.mark.parametrize("kind", FORMATS)
def test_empty_and_missing_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "some"
    with pytest.raises(BadTrace, match=r"some: cannot be read \(No such file or directory\); check the path"):
        read(path, kind, NODES)
    path.write_text("")
    if kind in ("swf", "history"):
        assert "the trace has no jobs" in read(path, kind, NODES).warnings
    else:
        with pytest.raises(BadTrace, match=r"some(:1)?: "):
            read(path, kind, NODES)


def test_a_byte_order_mark_and_spaces_are_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(line.replace(",", " , ") for line in EASY).encode() + b"\r\n")
    assert [job.id for job in read(path).jobs] == ["1", "2", "3", "4", "5"]


def test_jobs_wider_than_the_machine_are_left_out(tmp_path: Path) -> None:
    lines = list(SWF)
    lines[2] = changed("swf", lines[2], 7, "9")
    trace = load(tmp_path, "swf", lines)
    assert [job.id for job in trace.jobs] == ["1", "3", "4", "5"]
    assert trace.warnings == ("1 job wider than the machine of 8 processors: left out",)


def test_more_columns_than_the_header_has(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"some\.csv:3: 7 of 6 columns; correct the line"):
        load(tmp_path, "easy", [*EASY[:2], EASY[2] + ",9", *EASY[3:]])


def test_what_nobody_can_tell_the_format_of(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all,\n")
    with pytest.raises(BadTrace, match=r"letter\.txt:1: neither its name nor its first line .* --format: swf, alibaba"):
        read(path)
    with pytest.raises(BadTrace, match=r"no format 'csv'; there are swf, alibaba, philly, easy, deadlines, history"):
        read(path, "csv")


@pytest.mark.parametrize("text", ["8", "0x4", "4x0", "8x4xmany", "8x4x2x", "no/such/file.csv", ""])
def test_nodes_that_make_no_sense(text: str) -> None:
    with pytest.raises(BadTrace, match=r"--nodes: .* write COUNTxCPUS or COUNTxCPUSxGPUSxMODEL"):
        nodes_of(text)


def test_a_node_list_with_a_node_twice(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\na,1000,10,1,T4\na,1000,10,1,T4\n")
    with pytest.raises(BadTrace, match=r"nodes\.csv:3: node a is there twice"):
        nodes_of(str(path))
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\na,-1000,10,1,T4\n")
    with pytest.raises(BadTrace, match=r"nodes\.csv:2: node a has -1000 CPU"):
        nodes_of(str(path))
