"""HLX within tools of others: `hlx.integrations.lm_eval` for lm-evaluation-harness."""
