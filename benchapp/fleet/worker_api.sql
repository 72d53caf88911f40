-- What workers may do with the database beside their runs: see benchapp/runs/worker_api.sql.

-- The newest report of an installation, as it came; Tilewatch makes rows of it.
CREATE OR REPLACE FUNCTION worker.report(p_worker text, p_payload jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    name text := split_part(p_worker, '/', 2);
BEGIN
    PERFORM worker.must_be(p_worker);
    IF name !~ '^[A-Za-z0-9_-]{1,16}$' THEN
        RAISE EXCEPTION '% names no installation', left(p_worker, 120) USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (SELECT FROM fleet_report WHERE installation = name) AND 64 <= (
        SELECT count(*) FROM fleet_report WHERE worker.host_of(worker) = worker.host_of(p_worker)
    ) THEN
        RAISE EXCEPTION 'host % has too many installations', worker.host_of(p_worker)
            USING ERRCODE = 'check_violation';
    END IF;
    IF pg_column_size(p_payload) > 1000000 THEN
        RAISE EXCEPTION 'a report of % bytes is not taken', pg_column_size(p_payload) USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO fleet_report (installation, worker, payload, at)
    VALUES (name, left(p_worker, 120), p_payload, now())
    ON CONFLICT (installation) DO UPDATE SET
        worker = excluded.worker, payload = excluded.payload, at = excluded.at
    -- a host's role speaks for its own installations alone; Tilewatch's own role follows a host that is renamed
    WHERE pg_has_role(session_user, current_user, 'MEMBER')
       OR worker.host_of(fleet_report.worker) = worker.host_of(excluded.worker);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'installation % reports from another host', name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- The bytes of a candidate, by their digest.
CREATE OR REPLACE FUNCTION worker.candidate(p_worker text, p_sha256 text) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM worker.must_be(p_worker);
    RETURN (SELECT body FROM fleet_candidate WHERE sha256 = p_sha256);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA worker FROM PUBLIC;
