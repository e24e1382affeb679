-- A ledger from before its schema had revisions, as commit 596bcb8 wrote it. It is no longer made: it is what old files are like.
BEGIN TRANSACTION;
CREATE TABLE approvals (
	build_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence)
);
INSERT INTO "approvals" VALUES('build-1',1,'2026-11-30 21:50:51','{"traces": ["/t.jsonl"], "trace_digest": "0000000000000000000000000000000000000000000000000000000000000000", "trace_format": null, "workload_class": null, "model": "approved", "engine": "sglang", "utilisation": 0.8, "request_limit": null, "agents": ["search"], "models": {"endpoints": [], "run": {"usd": null, "tokens": null, "seconds": null, "calls": null}, "op": {"usd": null, "tokens": null, "seconds": null, "calls": null}, "device_usd_per_hour": null, "payback_days": 7.0}, "hot_ops": 8, "workloads_per_op": 4, "search_s": 110.0, "attempts_per_op": 24, "end_to_end_s": 75.0, "compile_s": 85.0, "approve_automatically": false}');
CREATE TABLE artifacts (
	task_id VARCHAR(64) NOT NULL, 
	candidate_id VARCHAR(64) NOT NULL, 
	blob VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (task_id, candidate_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
INSERT INTO "artifacts" VALUES('84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283','abababababababababababababababababababababababababababababababab',1,'2026-11-30 21:50:51','{}');
CREATE TABLE attempts (
	run_id VARCHAR(64) NOT NULL, 
	task_id VARCHAR(64) NOT NULL, 
	candidate_id VARCHAR(64) NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, task_id, candidate_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
INSERT INTO "attempts" VALUES('run-1','84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283','accepted',1,'2026-11-30 21:50:51','{"proposal": {"candidate": {"language": "cpp", "source": "void kernel() {}", "entry": "kernel", "prepare": null, "launch_parameters": {}, "build_flags": []}, "agent": "search", "model": null, "parents": [], "note": "", "round_id": "", "transcript": null, "cost_usd": 0.0}, "verdict": {"outcome": "accepted", "evidence": "native", "seed": 1, "calls_checked": 1, "worst_error_in_bounds": 0.0}, "measurement": {"stage": "screen", "device_id": "cpu-0", "threads": 1, "workloads": [{"workload": "rows=4", "candidate_us": 6.666666666666667, "kernel_only_us": 6.0, "baselines_us": {"eager": 10.0}, "best_baseline": "eager", "speedup_over_best": 1.5, "interval": [1.4849999999999999, 1.5150000000000001], "pairs": 5, "share_of_floor": 0.5, "parameters_are_cold": false, "decision": "undecided"}], "traffic_weighted_speedup": 1.5, "interval": [1.4849999999999999, 1.5150000000000001], "decision": "undecided", "prepare_us": 0.0, "prepared_bytes": 0, "wall_s": 1.0}}');
INSERT INTO "attempts" VALUES('run-1','84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','5b5c78fee0283edb69d81623c6989ecd73e59eb34059cb06e50ead83c5ebc8ad','rejected',2,'2026-11-30 21:50:51','{"proposal": {"candidate": {"language": "cpp", "source": "void kernel() { abort(); }", "entry": "kernel", "prepare": null, "launch_parameters": {}, "build_flags": []}, "agent": "search", "model": null, "parents": ["8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283"], "note": "it\u2028said \u0000 na\u00efve", "round_id": "", "transcript": null, "cost_usd": 0.0}, "verdict": {"outcome": "rejected", "reason": "crashed", "workload": null, "evidence": {"message": "no", "distribution": null, "worst": null, "share_of_elements_wrong": null, "log_tail": ""}, "seed": 1}, "measurement": null}');
CREATE TABLE builds (
	run_id VARCHAR(64) NOT NULL, 
	build_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, build_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "builds" VALUES('run-1','build-1',1,'2026-11-30 21:50:51','{"id": "build-1", "path": "/b", "task_ids": ["84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c"]}');
CREATE TABLE candidates (
	candidate_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (candidate_id)
);
INSERT INTO "candidates" VALUES('8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283',1,'2026-11-30 21:50:51','{"language": "cpp", "source": "void kernel() {}", "entry": "kernel", "prepare": null, "launch_parameters": {}, "build_flags": []}');
INSERT INTO "candidates" VALUES('5b5c78fee0283edb69d81623c6989ecd73e59eb34059cb06e50ead83c5ebc8ad',2,'2026-11-30 21:50:51','{"language": "cpp", "source": "void kernel() { abort(); }", "entry": "kernel", "prepare": null, "launch_parameters": {}, "build_flags": []}');
CREATE TABLE devices (
	device_id VARCHAR(96) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (device_id)
);
CREATE TABLE evaluations (
	task_id VARCHAR(64) NOT NULL, 
	candidate_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
CREATE TABLE measurements (
	run_id VARCHAR(64) NOT NULL, 
	task_id VARCHAR(64) NOT NULL, 
	candidate_id VARCHAR(64) NOT NULL, 
	stage VARCHAR(16) NOT NULL, 
	speedup FLOAT NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, task_id, candidate_id, stage), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
INSERT INTO "measurements" VALUES('run-1','84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283','confirm',1.45,1,'2026-11-30 21:50:51','{"stage": "confirm", "device_id": "cpu-0", "threads": 1, "workloads": [{"workload": "rows=4", "candidate_us": 6.8965517241379315, "kernel_only_us": 6.206896551724138, "baselines_us": {"eager": 10.0}, "best_baseline": "eager", "speedup_over_best": 1.45, "interval": [1.4355, 1.4645], "pairs": 5, "share_of_floor": 0.5, "parameters_are_cold": false, "decision": "undecided"}], "traffic_weighted_speedup": 1.45, "interval": [1.4355, 1.4645], "decision": "undecided", "prepare_us": 0.0, "prepared_bytes": 0, "wall_s": 1.0}');
CREATE TABLE memory_cards (
	card_id VARCHAR(64) NOT NULL, 
	functions VARCHAR(16) NOT NULL, 
	device_id VARCHAR(96) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (card_id)
);
CREATE TABLE model_call_ends (
	call_id VARCHAR(256) NOT NULL, 
	try_number INTEGER NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (call_id, try_number)
);
CREATE TABLE model_calls (
	call_id VARCHAR(256) NOT NULL, 
	try_number INTEGER NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (call_id, try_number)
);
CREATE TABLE problems (
	task_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (task_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
CREATE TABLE progress (
	run_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "progress" VALUES('run-1',1,'2026-11-30 21:50:51','{"stage": "search", "op": "Double", "tried": 2, "best_speedup": 1.5, "message": "Double: 1.50x"}');
CREATE TABLE promotions (
	run_id VARCHAR(64) NOT NULL, 
	task_id VARCHAR(64) NOT NULL, 
	candidate_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, task_id, candidate_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
INSERT INTO "promotions" VALUES('run-1','84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283',1,'2026-11-30 21:50:51','{"task_id": "84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c", "candidate_id": "8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283", "gates": [{"name": "won", "figure": 1.45, "bound": "> 1.03", "passed": true}]}');
CREATE TABLE run_ends (
	run_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE runs (
	run_id VARCHAR(64) NOT NULL, 
	request_digest VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id)
);
INSERT INTO "runs" VALUES('run-1','4cfeef3b6a446f911cda29686633b709bb0fdcf07c7f4cb6f72d7eecb6a001fd',1,'2026-11-30 21:50:51','{"traces": ["/t.jsonl"], "trace_digest": "0000000000000000000000000000000000000000000000000000000000000000", "trace_format": null, "workload_class": null, "model": "m", "engine": "sglang", "utilisation": 0.8, "request_limit": null, "agents": ["search"], "models": {"endpoints": [], "run": {"usd": null, "tokens": null, "seconds": null, "calls": null}, "op": {"usd": null, "tokens": null, "seconds": null, "calls": null}, "device_usd_per_hour": null, "payback_days": 7.0}, "hot_ops": 8, "workloads_per_op": 4, "search_s": 110.0, "attempts_per_op": 24, "end_to_end_s": 75.0, "compile_s": 85.0, "approve_automatically": false}');
CREATE TABLE search_ends (
	run_id VARCHAR(64) NOT NULL, 
	task_id VARCHAR(64) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, task_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
INSERT INTO "search_ends" VALUES('run-1','84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c',1,'2026-11-30 21:50:51','{"task_id": "84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c", "op": "Double", "decision": "won", "candidate_id": "8c131ebb4b7496f3b96ed6caf9474e13871533fb6ccdac1ef15182bfeb0ba283", "reason": "confirmed at 1.45x", "stop_reason": "", "tried": 2}');
CREATE TABLE spend_accounts (
	account_id VARCHAR(256) NOT NULL, 
	cap_nano_usd BIGINT, 
	cap_tokens BIGINT, 
	cap_milliseconds BIGINT, 
	cap_calls BIGINT, 
	used_nano_usd BIGINT NOT NULL, 
	used_tokens BIGINT NOT NULL, 
	used_milliseconds BIGINT NOT NULL, 
	used_calls BIGINT NOT NULL, 
	PRIMARY KEY (account_id)
);
INSERT INTO "spend_accounts" VALUES('run-1',1000000000,NULL,NULL,NULL,0,0,0,0);
CREATE TABLE spend_stops (
	account_id VARCHAR(256) NOT NULL, 
	limit_name VARCHAR(16) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (account_id, limit_name)
);
CREATE TABLE stages (
	run_id VARCHAR(64) NOT NULL, 
	stage VARCHAR(32) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (run_id, stage), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE tasks (
	task_id VARCHAR(64) NOT NULL, 
	op VARCHAR(256) NOT NULL, 
	sequence INTEGER NOT NULL, 
	recorded_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	record JSON NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (task_id)
);
INSERT INTO "tasks" VALUES('84178b51046a236dd64b8e16516833f319c08abac143c87b8edcf3e4eeecea3c','Double',1,'2026-11-30 21:50:51','{"op": "Double", "site": "model.layers.*.double", "level": "leaf", "reference": "def reference(x):\n    return x + x\n", "inputs": [{"name": "x", "element_type": "float32", "shape": ["rows", 8], "dim_order": [0, 1], "role": "activation", "attribute": null}], "outputs": [{"name": "out0", "element_type": "float32", "shape": ["rows", 8], "dim_order": [0, 1]}], "axes": ["rows"], "workloads": [{"axes": {"rows": 4}, "calls_per_hour": 10.0, "calls_per_hour_by_class": {}, "is_hidden": false}], "covered_share": 1.0, "error_bound": {"scaled_error": 0.0, "factor": 4.0, "cancelled_below": 0.0, "cancelled_error": 0.0}, "instances": 1, "device_id": "cpu-0", "threads": 1}');
CREATE INDEX ix_runs_request_digest ON runs (request_digest);
CREATE INDEX ix_tasks_op ON tasks (op);
CREATE INDEX ix_approvals_build_id ON approvals (build_id);
CREATE INDEX ix_memory_cards_functions ON memory_cards (functions);
CREATE INDEX ix_progress_run_id ON progress (run_id);
CREATE INDEX attempts_by_task ON attempts (run_id, task_id);
CREATE INDEX ix_evaluations_task_id ON evaluations (task_id);
CREATE INDEX ix_builds_build_id ON builds (build_id);
COMMIT;
