"""The judge: rules' questions to a judge model, asked through the exchange of `rwkv_daemon.remote`.

`judge_service.JudgeService` is what the rest of the daemon uses.
"""
