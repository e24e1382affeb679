"""Names of the figures that Prometheus finds; tests hold the programs, the alerts and the documents to them."""

SERVICE_FIGURES = {
    "compiler_agent_attempts_total",
    "compiler_agent_home_free_bytes",
    "compiler_agent_last_run_end_seconds",
    "compiler_agent_model_calls_total",
    "compiler_agent_model_spend_usd_total",
    "compiler_agent_nights_total",
    "compiler_agent_problems",
    "compiler_agent_program_ready",
    "compiler_agent_program_restarts_total",
    "compiler_agent_promotions_total",
    "compiler_agent_queue_backlog",
    "compiler_agent_queue_workers",
    "compiler_agent_retractions_total",
    "compiler_agent_run_failures_total",
    "compiler_agent_runs_begun_total",
    "compiler_agent_runs_ended_total",
}
WORKER_FIGURES = {"compiler_agent_activity_ends_total", "compiler_agent_candidates_total"}
