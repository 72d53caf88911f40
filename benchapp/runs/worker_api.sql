-- All that a worker may do with the database. Each function runs with the rights of Tilewatch's own role, so
-- that a GPU host's role needs no right on any table: it may claim, beat, deliver, and say how an attempt ended.
-- Time is Postgres' time; a conditional UPDATE under the run's row lock decides every race.
-- Applied by a migration; `benchapp.runs.worker_api` does it.

CREATE SCHEMA IF NOT EXISTS worker;
REVOKE ALL ON SCHEMA worker FROM PUBLIC;

-- queue@host/installation → host
CREATE OR REPLACE FUNCTION worker.host_of(p_worker text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT split_part(split_part(p_worker, '@', 2), '/', 1) $$;

-- A host's role may speak for workers of that host alone; Tilewatch's own role for all.
CREATE OR REPLACE FUNCTION worker.must_be(p_worker text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    bound text;
BEGIN
    IF pg_has_role(session_user, current_user, 'MEMBER') THEN
        RETURN;
    END IF;
    SELECT host INTO bound FROM runs_workerrole
    WHERE role = session_user AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());
    IF bound IS NULL OR bound <> worker.host_of(p_worker) THEN
        RAISE EXCEPTION 'role % may not act for a worker of host %', session_user, worker.host_of(p_worker)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- What a host says that an attempt held, as far as it can be kept and shown: NULL where it says nothing of it.
CREATE OR REPLACE FUNCTION worker.held_gpus(p_lease jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(p_lease->'gpus') = 'array' THEN ARRAY(
        SELECT left(uuid, 80) FROM jsonb_array_elements_text(p_lease->'gpus') uuid WHERE uuid IS NOT NULL LIMIT 64
    ) END
$$;

-- Postgres knows times that no calendar has, as infinity; those are NULL.
CREATE OR REPLACE FUNCTION worker.moment(p_text text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_text::timestamptz BETWEEN '1970-01-01Z' AND '9000-01-01Z' THEN p_text::timestamptz END
$$;

-- Something better that the host should do first: on it already, or waiting in one of the worker's queues.
CREATE OR REPLACE FUNCTION worker.must_yield(p_priority int, p_worker text, p_queues text[], p_ready text[])
RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN  -- not LANGUAGE sql, which an earlier migration would check against columns of a later one
    RETURN p_priority < 0 AND EXISTS (
        SELECT FROM runs_run better
        WHERE better.priority > p_priority
          AND (
            (better.state = 'running' AND split_part(better.worker, '@', 2) = split_part(p_worker, '@', 2))
            OR (better.state = 'queued' AND better.queue = ANY (p_queues)
                AND (p_ready IS NULL OR (
                    (better.environment = '' OR better.environment = ANY (p_ready))
                    AND (better.environment_beside = '' OR better.environment_beside = ANY (p_ready))))
                AND NOT EXISTS (
                    SELECT FROM runs_run before
                    WHERE before.id = better.waits_for_id
                      AND before.state NOT IN ('done', 'failed', 'cancelled')))
          )
    );
END $$;

-- The best runnable run of the queues: highest priority, then whose turn it is. NULL when there is none, when a
-- better one should go first, or while the GPU or the host is under maintenance.
-- p_ready names the environments that the worker's host has built; NULL: whatever a run needs is there.
CREATE OR REPLACE FUNCTION worker.claim(
    p_protocol int, p_queues text[], p_worker text, p_gpu text, p_ready text[]
) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found runs_run;
BEGIN
    PERFORM worker.must_be(p_worker);
    IF p_protocol <> 1 THEN
        RAISE EXCEPTION 'this worker speaks protocol %, and Tilewatch expects 1: bring both to one version', p_protocol
            USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT r.* INTO found
    FROM runs_run r
    WHERE r.state = 'queued' AND r.queue = ANY (p_queues)
      AND (p_ready IS NULL OR (
          (r.environment = '' OR r.environment = ANY (p_ready))
          AND (r.environment_beside = '' OR r.environment_beside = ANY (p_ready))))
      -- a subquery by key, for a join would read all runs that ever were
      AND coalesce((
          SELECT before.state IN ('done', 'failed', 'cancelled') FROM runs_run before WHERE before.id = r.waits_for_id
      ), true)
      AND NOT EXISTS (
          SELECT FROM runs_maintenance m
          WHERE (m.host = worker.host_of(p_worker) OR (m.gpu <> '' AND (m.gpu = p_gpu OR m.gpu = ANY (r.gpus))))
            AND m.lifted_at IS NULL AND m.starts_at <= now() AND (m.ends_at IS NULL OR m.ends_at > now()))
    ORDER BY r.priority DESC, r.turn, r.id
    LIMIT 1
    FOR UPDATE OF r SKIP LOCKED;
    IF found.id IS NULL OR worker.must_yield(found.priority, p_worker, p_queues, p_ready) THEN
        RETURN NULL;  -- the next sweep wakes the queue again
    END IF;
    UPDATE runs_run SET
        state = 'running', attempt = attempt + 1, worker = left(p_worker, 120), heartbeat_at = now(),
        started_at = now(), progress_done = 0, progress_total = 0, progress_message = ''
    WHERE id = found.id;
    INSERT INTO runs_attempt (run_id, number, worker, started_at, outcome, failure, log, gpus)
    VALUES (found.id, found.attempt + 1, left(p_worker, 120), now(), '', '', '', '{}');
    RETURN jsonb_build_object(
        'run_id', found.id, 'attempt', found.attempt + 1, 'kind', found.kind, 'queue', found.queue,
        'priority', found.priority, 'params', found.params, 'environment', found.environment,
        'gpus', to_jsonb(found.gpus), 'time_limit_s', found.time_limit_s,
        'versions', (SELECT versions FROM catalog_recipe WHERE id = found.recipe_id))
        -- only where there is one, so that workers that know of none go on
        || CASE WHEN found.recipe_beside_id IS NULL THEN '{}'::jsonb ELSE jsonb_build_object(
            'environment_beside', found.environment_beside,
            'versions_beside', (SELECT versions FROM catalog_recipe WHERE id = found.recipe_beside_id)) END;
END $$;

-- This attempt lives, is so far, printed so much, and holds these GPUs. 'continue', 'cancel', 'yield' or 'lost'.
-- p_progress: {done, total, message} or NULL. p_lease: {gpus, from} or NULL.
CREATE OR REPLACE FUNCTION worker.beat(
    p_run bigint, p_attempt int, p_progress jsonb, p_log text, p_lease jsonb, p_queues text[], p_ready text[]
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    mine runs_run;
BEGIN
    SELECT * INTO mine FROM runs_run WHERE id = p_run AND attempt = p_attempt AND state = 'running' FOR UPDATE;
    IF mine.id IS NULL THEN
        RETURN 'lost';
    END IF;
    PERFORM worker.must_be(mine.worker);
    UPDATE runs_run SET
        heartbeat_at = clock_timestamp(),
        progress_done = coalesce((p_progress->>'done')::int, progress_done),
        progress_total = coalesce((p_progress->>'total')::int, progress_total),
        progress_message = coalesce(left(p_progress->>'message', 300), progress_message)
    WHERE id = p_run;
    IF p_log <> '' OR p_lease IS NOT NULL THEN
        UPDATE runs_attempt SET
            log = left(log || p_log, 1000000),
            gpus = coalesce(worker.held_gpus(p_lease), gpus),
            lease_from = coalesce(worker.moment(p_lease->>'from'), lease_from)
        WHERE run_id = p_run AND number = p_attempt;
    END IF;
    IF mine.cancel_requested_at IS NOT NULL THEN
        RETURN 'cancel';
    END IF;
    IF worker.must_yield(mine.priority, mine.worker, p_queues, p_ready) THEN
        RETURN 'yield';
    END IF;
    RETURN 'continue';
END $$;

CREATE OR REPLACE FUNCTION worker.close_attempt(
    p_run bigint, p_attempt int, p_outcome text, p_failure text, p_lease jsonb
) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE runs_attempt SET
        outcome = p_outcome, failure = p_failure, ended_at = clock_timestamp(),
        gpus = coalesce(worker.held_gpus(p_lease), gpus),
        lease_from = coalesce(worker.moment(p_lease->>'from'), lease_from),
        lease_to = coalesce(worker.moment(p_lease->>'to'), lease_to)
    WHERE run_id = p_run AND number = p_attempt
$$;

-- The end of an attempt without a document: 'failed', 'cancelled', 'built' (of an environment, which is what it
-- leaves), or anything else, which puts the run back.
-- False if the run is no longer this attempt's. Listeners are told by Tilewatch itself, not from here.
CREATE OR REPLACE FUNCTION worker.end_attempt(
    p_run bigint, p_attempt int, p_outcome text, p_code text, p_sentence text, p_lease jsonb
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    mine runs_run;
    sentence text := left(p_sentence, 4000);
BEGIN
    SELECT * INTO mine FROM runs_run WHERE id = p_run AND attempt = p_attempt AND state = 'running' FOR UPDATE;
    IF mine.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM worker.must_be(mine.worker);
    PERFORM worker.close_attempt(p_run, p_attempt, left(p_outcome, 40), sentence, p_lease);
    IF p_outcome = 'failed' OR p_outcome = 'cancelled' THEN
        UPDATE runs_run SET
            state = p_outcome, failure_code = left(p_code, 40), failure = sentence, finished_at = now()
        WHERE id = p_run;
    ELSIF p_outcome = 'built' AND mine.kind = 'build' THEN
        UPDATE runs_run SET state = 'done', finished_at = now() WHERE id = p_run;
    ELSIF mine.cancel_requested_at IS NOT NULL THEN  -- put back, and nobody wants it any more
        UPDATE runs_run SET state = 'cancelled', finished_at = now() WHERE id = p_run;
    ELSE
        UPDATE runs_run SET state = 'queued', started_at = NULL WHERE id = p_run;
    END IF;
    RETURN true;
END $$;

-- A document into the inbox; ingest decides what becomes of it. Returns its id. Equal bytes are kept once.
CREATE OR REPLACE FUNCTION worker.deliver(p_run bigint, p_attempt int, p_body bytea, p_lease jsonb)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    target runs_run;
    by_whom text;
    digest text := encode(sha256(p_body), 'hex');
    row_id bigint;
    row_run bigint;
    row_state text;
BEGIN
    SELECT * INTO target FROM runs_run WHERE id = p_run FOR UPDATE;
    SELECT worker INTO by_whom FROM runs_attempt WHERE run_id = p_run AND number = p_attempt;
    IF by_whom IS NULL THEN
        RAISE EXCEPTION 'there is no attempt % of a run %', p_attempt, p_run USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM worker.must_be(by_whom);
    IF length(p_body) > 33554432 THEN  -- as the setting DOCUMENT_LIMIT_BYTES
        RAISE EXCEPTION 'a document of % bytes is not taken', length(p_body) USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO runs_document (
        sha256, body, size, origin, name, run_id, attempt, state, fault, kind, facts
    ) VALUES (
        digest, p_body, length(p_body), 'worker', '', p_run, p_attempt, 'received', '', '', '{}'
    ) ON CONFLICT (sha256) DO NOTHING RETURNING id INTO row_id;
    IF row_id IS NULL THEN
        SELECT id, run_id, state INTO row_id, row_run, row_state FROM runs_document WHERE sha256 = digest;
        IF row_run IS DISTINCT FROM p_run THEN
            PERFORM worker.end_attempt(
                p_run, p_attempt, 'failed', 'known_document',
                format('It delivered the very bytes of document %s, which came from elsewhere.', row_id), p_lease);
            RETURN row_id;
        END IF;
        IF row_state <> 'received' THEN
            RETURN row_id;
        END IF;
    END IF;
    IF target.state = 'running' AND target.attempt <> p_attempt THEN
        -- a document from an attempt that was given up came first: the one under way has lost the race
        UPDATE runs_attempt SET outcome = 'overtaken', ended_at = clock_timestamp()
        WHERE run_id = p_run AND number = target.attempt AND outcome = '';
    END IF;
    IF target.state IN ('queued', 'running', 'failed') THEN
        UPDATE runs_run SET
            state = 'delivered', failure_code = '', failure = '', told = false, heartbeat_at = now(),
            started_at = (SELECT started_at FROM runs_attempt WHERE run_id = p_run AND number = p_attempt)
        WHERE id = p_run;
    END IF;
    PERFORM worker.close_attempt(p_run, p_attempt, 'delivered', '', p_lease);
    RETURN row_id;
END $$;

-- A run under lock whose heart stopped: queued again, cancelled if somebody asked, failed if lost too often.
CREATE OR REPLACE FUNCTION worker.take_up_again(p_run bigint, p_reason text, p_max_attempts int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    mine runs_run;
    lost int;
BEGIN
    SELECT * INTO mine FROM runs_run WHERE id = p_run AND state = 'running' FOR UPDATE;
    IF mine.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM worker.must_be(mine.worker);
    PERFORM worker.close_attempt(p_run, mine.attempt, 'lost', p_reason, NULL);
    SELECT count(*) INTO lost FROM runs_attempt WHERE run_id = p_run AND outcome = 'lost';
    IF mine.cancel_requested_at IS NOT NULL THEN
        UPDATE runs_run SET state = 'cancelled', finished_at = now() WHERE id = p_run;
    ELSIF lost >= p_max_attempts THEN
        UPDATE runs_run SET
            state = 'failed', failure_code = 'worker_lost', finished_at = now(),
            failure = format(
                'Its worker was lost in each of %s attempts, last %s: %s.', lost, mine.worker, p_reason)
        WHERE id = p_run;
    ELSE
        UPDATE runs_run SET state = 'queued', started_at = NULL WHERE id = p_run;
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- A worker that has just started cannot be working: what it held in an earlier life is lost. Returns the queues
-- that have work again.
CREATE OR REPLACE FUNCTION worker.release(p_worker text, p_max_attempts int) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    held record;
BEGIN
    PERFORM worker.must_be(p_worker);
    FOR held IN
        SELECT id, queue FROM runs_run WHERE state = 'running' AND worker = p_worker ORDER BY id FOR UPDATE
    LOOP
        IF worker.take_up_again(held.id, 'its worker was started anew', p_max_attempts) THEN
            RETURN NEXT held.queue;
        END IF;
    END LOOP;
END $$;

-- "run-attempt" of all that workers of this installation (the end of the worker's name) are at.
CREATE OR REPLACE FUNCTION worker.under_way(p_worker text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM worker.must_be(p_worker);
    RETURN QUERY
        SELECT id || '-' || attempt FROM runs_run
        WHERE state = 'running' AND split_part(worker, '@', 2) = split_part(p_worker, '@', 2);
END $$;

-- The legal moves of `benchapp.runs.states`, whoever writes.
CREATE OR REPLACE FUNCTION worker.legal_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('queued', 'running'), ('queued', 'delivered'), ('queued', 'failed'), ('queued', 'cancelled'),
        ('running', 'queued'), ('running', 'delivered'), ('running', 'failed'), ('running', 'cancelled'),
        ('running', 'done'),
        ('delivered', 'done'), ('delivered', 'failed'),
        ('failed', 'delivered'), ('failed', 'done')
    ) THEN
        RAISE EXCEPTION 'run %: % to % is not a legal move', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER runs_run_legal_move BEFORE UPDATE OF state ON runs_run
    FOR EACH ROW EXECUTE FUNCTION worker.legal_move();

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA worker FROM PUBLIC;
