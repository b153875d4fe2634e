// Written by scripts/types.mjs from the OpenAPI document: changes belong there.
export interface paths {
    "/v1/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Alerts, the newest first. */
        get: operations["listAlerts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alerts/{name}/acknowledge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Somebody sees to it. */
        post: operations["acknowledgeAlert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alerts/{name}/resolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** It is over. If it comes again, it is new. */
        post: operations["resolveAlert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who did what, the newest first, page by page. */
        get: operations["searchAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How one may log in here. */
        get: operations["getAuth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/logins": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begin a login of a browser by an identity provider: authorization code with PKCE. */
        post: operations["beginBrowserLogin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Trade the provider's code for a session in a cookie, in the browser that began the login. */
        post: operations["finishBrowserLogin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cost": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What days cost: useful, lost, running and idle GPU-hours and money, by day, tenant, team, pool or model. */
        get: operations["getCost"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cost/budgets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was spent this month, where that leads, and the budget. */
        get: operations["listBudgets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/decisions/{name}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a past decision again with other weights. Changes nothing. */
        post: operations["replayDecision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/federation/clusters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Clusters of this global plane. */
        get: operations["listMembers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/federation/clusters/{cluster}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Offer a cluster nothing more, and take back what has not begun there. It has left when it is empty. */
        post: operations["drainMember"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/federation/clusters/{cluster}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Offer jobs to a drained cluster again. */
        post: operations["resumeMember"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/federation/uplink": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The global plane that this cluster belongs to. */
        get: operations["getUplink"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/gpus": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every GPU, as columns: what is held, by which job, how busy and hot. */
        get: operations["getGpus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/insights": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What is odd in the platform's numbers, and what is to be expected of demand. */
        get: operations["listInsights"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/insights/{token}/feedback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say what an insight was: no anomaly, or useful. Both are kept. */
        post: operations["judgeInsight"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List jobs, page by page. */
        get: operations["listJobs"];
        put?: never;
        /** Submit a job. */
        post: operations["submitJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A job or an array: specification, state and result. */
        get: operations["getJob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Change what a job asks for: all of it while it waits, priority and time limit while it runs. */
        patch: operations["updateJob"];
        trace?: never;
    };
    "/v1/jobs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a job. It is final at once. */
        post: operations["cancelJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The job's ledger: everything that happened to it. */
        get: operations["listJobEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Why a job waits, and what would start it. */
        get: operations["explainJob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep a job that has not begun from being started. */
        post: operations["holdJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/outputs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The files of the job's committed result. */
        get: operations["listOutputs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/preemptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** When the job was displaced by others, or others by it, and why. */
        get: operations["listPreemptions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let a held job go on. */
        post: operations["releaseJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Try a waiting job now, or run a finished one again as a new job. */
        post: operations["retryJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/trace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The job's way as spans, from its ledger; what still lasts has no end. */
        get: operations["getTrace"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/use": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a running job uses now. */
        get: operations["getJobUse"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/resolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Ids that begin with some characters. */
        get: operations["resolveJob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me/browser-session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Trade a token, a login or a login link for a session in a cookie. */
        post: operations["openBrowserSession"];
        /** End the session of this browser. */
        delete: operations["closeBrowserSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodepools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Pools: what they have, who holds it now and later, and when jobs of some size would start there. */
        get: operations["listNodePools"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Nodes, and what is free on them. */
        get: operations["listNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One node. */
        get: operations["getNode"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All of it at a glance: jobs by phase, why they wait, and what machines hold. */
        get: operations["getOverview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What would happen if this were submitted. Changes nothing. */
        post: operations["planJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/prio": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Waiting jobs in order, with the factors that sum to each rank. */
        get: operations["listPriorities"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reports/compliance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Evidence of who may do what, and did what. */
        post: operations["makeComplianceReport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reports/cost": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A report on cost and energy. */
        post: operations["makeCostReport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reports/sla": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A report on promises kept and missed. */
        post: operations["makeSlaReport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How numbers of the platform went over time, as this replica remembers them. */
        get: operations["getSeries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sla": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Classes of service, and how many jobs met their deadline. */
        get: operations["listClasses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Is the platform well: leader, replicas, store, disks, machines, certificates, backups, each with its age. */
        get: operations["getStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What jobs used: GPU-hours, CPU-hours, energy, cost, and waste. */
        get: operations["getUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/whoami": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who this credential is, and what it may do. */
        get: operations["whoAmI"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AlertList
         * @description The newest first.
         */
        AlertList: {
            alerts: components["schemas"]["AlertRecord"][];
        };
        /** AlertNote */
        AlertNote: {
            /** @default  */
            note: string;
        };
        /**
         * AlertRecord
         * @description One thing that is wrong. What happens again before it is forgotten is the same alert, counted.
         */
        AlertRecord: {
            /** @default  */
            by: string;
            /** @default [] */
            channels: string[];
            /** @default 1 */
            count: number;
            /** @default 1 */
            episode: number;
            /** @default 0 */
            firstAt: number;
            id: string;
            kind: string;
            /** @default 0 */
            lastAt: number;
            /** @default  */
            note: string;
            /** @default {} */
            numbers: {
                [key: string]: number;
            };
            /** @default {} */
            sent: {
                [key: string]: components["schemas"]["Sent"];
            };
            /**
             * @default warning
             * @enum {unknown}
             */
            severity: "critical" | "info" | "warning";
            /**
             * @default open
             * @enum {unknown}
             */
            state: "acknowledged" | "open" | "resolved";
            subject: string;
            tenant: string;
            text: string;
        };
        /**
         * AskExplained
         * @description One alternative of the job. Without a reason it would fit now.
         */
        AskExplained: {
            /** @default [] */
            funnel: components["schemas"]["Step"][];
            /** @default [] */
            nearest: components["schemas"]["NearMiss"][];
            reason: components["schemas"]["Reason"] | null;
            /** @default [] */
            wakes: string[];
        };
        /**
         * AuditEntry
         * @description A draft in its place in the chain. `hash` is over the line's bytes before it, which name the one before.
         */
        AuditEntry: {
            at: number;
            /** @default  */
            chain: string;
            /** @default 1 */
            count: number;
            /** @default {} */
            counts: {
                [key: string]: number;
            };
            /** @default  */
            glass: string;
            /** @default  */
            hash: string;
            /** @default  */
            home: string;
            /** @default [] */
            made: string[];
            /** @default  */
            method: string;
            /** @default  */
            object: string;
            operation: string;
            /** @enum {unknown} */
            outcome: "ALLOW" | "DENY" | "ERROR";
            /** @default  */
            path: string;
            prev: string;
            /** @default  */
            proof: string;
            /** @default  */
            reason: string;
            /** @default  */
            remote: string;
            /** @default  */
            role: string;
            seq: number;
            /** @default 0 */
            status: number;
            /** @default  */
            target: string;
            /** @default  */
            tenant: string;
            /** @default  */
            token: string;
            /** @default  */
            trace: string;
            /** @default  */
            user: string;
        };
        /**
         * AuditPage
         * @description The newest entries first. A page may have none and still go on by its `cursor`.
         */
        AuditPage: {
            chains: components["schemas"]["ChainSeen"][];
            cursor: string;
            entries: components["schemas"]["AuditEntry"][];
        };
        /**
         * AuthView
         * @description How one gets in: with an API token in any case. `browser` names the providers that browsers may log in with.
         */
        AuthView: {
            /** @default [] */
            browser: string[];
            providers: components["schemas"]["ProviderView"][];
        };
        /**
         * BegunLogin
         * @description Where the browser goes to log in. What ties the login to it is in the cookie that came with this answer.
         */
        BegunLogin: {
            url: string;
        };
        /** BudgetList */
        BudgetList: {
            budgets: components["schemas"]["BudgetProjection"][];
        };
        /**
         * BudgetProjection
         * @description A tenant's month: what it has spent by the books, where that leads, and its budget. Without `projected`, `why`
         *         says why there is none.
         */
        BudgetProjection: {
            /** @default null */
            budget: number | null;
            committed: number;
            currency: string;
            /** @default 0 */
            daysSeen: number;
            month: string;
            /** @default null */
            perDay: number | null;
            /** @default null */
            projected: number | null;
            /** @default null */
            projectedHigh: number | null;
            /** @default null */
            projectedLow: number | null;
            spent: number;
            tenant: string;
            /** @default null */
            usedUpOn: string | null;
            /** @default  */
            why: string;
        };
        /**
         * ChainSeen
         * @description A chain that is known of. Those that are not `here` are on other replicas' disks: ask there too.
         */
        ChainSeen: {
            chain: string;
            here: boolean;
            /** @default  */
            key: string;
            /** @default 0 */
            signed: number;
            /** @default 0 */
            signedAt: number;
        };
        /**
         * Change
         * @description What to write instead. `cost` orders changes: the part of the job that is given up.
         */
        Change: {
            cost: number;
            fields: Record<string, never>;
            message: string;
        };
        /**
         * CheckpointId
         * @description Checkpoints of a job come in this order: by attempt, then by number.
         */
        CheckpointId: {
            fence: components["schemas"]["Fence"];
            seq: number;
        };
        /**
         * CheckpointKeep
         * @description Which checkpoints are kept: the newest, one of each stretch of time, and the best. While the job lives the newest
         *         two are, whatever this says.
         */
        CheckpointKeep: {
            /** @default null */
            best: components["schemas"]["KeepBest"] | null;
            /** @default null */
            everyS: number | null;
            /** @default 2 */
            last: number;
        };
        /**
         * CheckpointPointer
         * @description The newest checkpoint of a job, as its state has it.
         */
        CheckpointPointer: {
            fence: components["schemas"]["Fence"];
            manifest: string;
            /** @default 0 */
            nth: number;
            seq: number;
            size: number;
            /** @default 0 */
            stallS: number;
            step: number;
            takenAt: number;
            /** @default 0 */
            uploadS: number;
        };
        /**
         * CheckpointPolicy
         * @description The job saves checkpoints, and goes on from the newest when it is started again.
         */
        CheckpointPolicy: {
            /** @default false */
            allRanks: boolean;
            /** @default null */
            intervalS: number | null;
            /** @default {} */
            keep: components["schemas"]["CheckpointKeep"];
            /** @default false */
            required: boolean;
        };
        /**
         * ChildJob
         * @description A job that a job submitted, by the number of its call.
         */
        ChildJob: {
            call: number;
            id: string;
            name: string;
            /** @enum {unknown} */
            phase: "CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING";
        };
        /**
         * ChildOf
         * @description The job whose attempt submitted a job, by which of its calls. `depth`: 1 for a child of a job that a person
         *         submitted. A detached one goes on when its parent is cancelled.
         */
        ChildOf: {
            call: number;
            /** @default 1 */
            depth: number;
            /** @default false */
            detached: boolean;
            fence: components["schemas"]["Fence"];
            job: string;
        };
        /**
         * ClusterAge
         * @description One cluster. While it is silent its figures are as of `told_at`; what it does meanwhile it tells when it is
         *         back.
         */
        ClusterAge: {
            /** @default  */
            closedDay: string;
            cluster: string;
            /** @default null */
            heardS: number | null;
            /** @default 0 */
            incarnation: number;
            silent: boolean;
            state: string;
            /** @default null */
            toldAt: number | null;
        };
        /**
         * ClusterReport
         * @description What a cluster says of itself. Of two, the greater (incarnation, seq) is the newer one, whatever clocks say.
         */
        ClusterReport: {
            cluster: string;
            /** @default [] */
            datasets: string[];
            incarnation: number;
            /** @default [] */
            labels: string[];
            /** @default 0 */
            local: number;
            /** @default  */
            mode: string;
            /** @default false */
            moreLabels: boolean;
            /** @default 0 */
            nodes: number;
            /** @default 0 */
            pending: number;
            /** @default 0 */
            readyNodes: number;
            /** @default 0 */
            rttMs: number;
            /** @default 0 */
            running: number;
            seq: number;
            /** @default [] */
            shapes: components["schemas"]["ReportedShape"][];
            /** @default  */
            version: string;
        };
        /**
         * CostReport
         * @description Days from `first_day` to `last_day`. Days after `closed_day` are not closed: their figures still change.
         */
        CostReport: {
            at: number;
            booksSince: string;
            /** @enum {unknown} */
            by: "cluster" | "day" | "gpu-model" | "job" | "pool" | "team" | "tenant";
            closedDay: string;
            cluster: string;
            /** @default [] */
            clusters: components["schemas"]["ClusterAge"][];
            currency: string;
            /**
             * @default model
             * @enum {unknown}
             */
            energySource: "model";
            firstDay: string;
            groups: number;
            incarnation: number;
            lastDay: string;
            /** @default [] */
            remarks: string[];
            rows: components["schemas"]["CostRow"][];
            total: components["schemas"]["CostRow"];
            whole: boolean;
        };
        /**
         * CostRow
         * @description One group. Where there is a capacity, useful + lost + running + idle is capacity + over, in GPU-hours and in
         *         money. `running` may be below nothing for one day: what ran at the end of the day before has ended since, and is
         *         useful or lost now.
         */
        CostRow: {
            /** @default 0 */
            capacityCost: number;
            /** @default 0 */
            capacityGpuHours: number;
            /** @default 0 */
            cost: number;
            /** @default 0 */
            cpuHours: number;
            /** @default 0 */
            downGpuHours: number;
            /** @default 0 */
            energyKwh: number;
            /** @default 0 */
            idleCost: number;
            /** @default 0 */
            idleEnergyKwh: number;
            /** @default 0 */
            idleGpuHours: number;
            /** @default 0 */
            jobs: number;
            key: string;
            /** @default 0 */
            lostCost: number;
            /** @default 0 */
            lostGpuHours: number;
            /** @default  */
            name: string;
            /** @default 0 */
            overCost: number;
            /** @default 0 */
            overGpuHours: number;
            /** @default 0 */
            runningCost: number;
            /** @default 0 */
            runningGpuHours: number;
            /** @default 0 */
            usefulCost: number;
            /** @default 0 */
            usefulGpuHours: number;
        };
        /**
         * Created
         * @description A submitted job. `replayed`: an earlier request with the same id made it.
         */
        Created: {
            /** @default null */
            deadline: components["schemas"]["DeadlineSeen"] | null;
            id: string;
            links: {
                [key: string]: string;
            };
            replayed: boolean;
            tasks: number;
            /** @default [] */
            warnings: components["schemas"]["JobWarning"][];
        };
        /**
         * DataInput
         * @description Data the job reads: being near it counts by its size. With `from` it is staged on the node before the job starts,
         *         and its directory is in $ARES_INPUT_<NAME>.
         */
        DataInput: {
            /** @default null */
            from: string | null;
            /**
             * @default cache
             * @enum {unknown}
             */
            mode: "cache" | "copy" | "stream";
            name: string;
            /** @default 1 */
            sizeMib: number;
        };
        /**
         * DeadlineSeen
         * @description With changes that would meet the deadline, where it is not met without.
         */
        DeadlineSeen: {
            /** @default  */
            basis: string;
            /** @default null */
            deadlineAt: number | null;
            /** @default null */
            endsAt: number | null;
            /** @default null */
            endsHigh: number | null;
            /** @default null */
            endsLow: number | null;
            message: string;
            /** @default null */
            startByAt: number | null;
            /** @default null */
            startsAt: number | null;
            /** @enum {unknown} */
            verdict: "no" | "unknown" | "yes";
            /** @default [] */
            ways: components["schemas"]["Way"][];
        };
        /**
         * DemandView
         * @description Whether GPUs will be asked for that are not there, in `ahead_s`. Without a probability `silent` says why nothing
         *         is said. `skill`: how much better its probabilities were than the better of the mere share of such times and of
         *         saying that all stays as it is; `coverage`: how often what came lay in the range; both of `tried` times of late.
         */
        DemandView: {
            aheadS: number;
            /** @default null */
            capacity: number | null;
            /** @default null */
            coverage: number | null;
            /** @default null */
            high: number | null;
            /** @default null */
            low: number | null;
            /** @default null */
            probability: number | null;
            /** @default  */
            silent: string;
            /** @default null */
            skill: number | null;
            /** @default 0 */
            tried: number;
        };
        /**
         * Eta
         * @description Seconds since the epoch. Without `latest` nobody can say; `basis` says what it rests on.
         */
        Eta: {
            basis: string;
            computedAt: number;
            earliest: number;
            latest: number | null;
        };
        /** Events */
        Events: {
            events: components["schemas"]["LedgerEvent"][];
        };
        /**
         * ExitInfo
         * @description How an attempt ended. `failure` is None for success.
         */
        ExitInfo: {
            /** @default null */
            code: number | null;
            /** @default null */
            cpuS: number | null;
            /** @default null */
            failure: ("exit" | "node-lost" | "oom" | "signal" | "staging" | "time-limit") | null;
            /** @default false */
            lasting: boolean;
            /** @default null */
            maxRssMib: number | null;
            /** @default  */
            message: string;
            /** @default null */
            signal: string | null;
        };
        /** Explanation */
        Explanation: {
            /** @default null */
            ahead: number | null;
            /** @default null */
            aheadInTenant: number | null;
            /** @default [] */
            alternatives: components["schemas"]["AskExplained"][];
            at: number;
            /** @default null */
            change: components["schemas"]["Change"] | null;
            /** @default null */
            eta: components["schemas"]["Eta"] | null;
            /** @default [] */
            factors: components["schemas"]["FactorShown"][];
            /** @default [] */
            gpus: components["schemas"]["GpuSeen"][];
            /** @default [] */
            holders: components["schemas"]["Holder"][];
            job: string;
            /** @default [] */
            limits: components["schemas"]["Standing"][];
            /** @default  */
            noEviction: string;
            /** @enum {unknown} */
            phase: "CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING";
            /** @default null */
            promise: components["schemas"]["Promise"] | null;
            /** @default null */
            rank: number | null;
            /** @default null */
            reason: components["schemas"]["Reason"] | null;
            /** @default null */
            remedy: ("operator" | "wait" | "yours") | null;
            /** @default null */
            starts: components["schemas"]["Eta"] | null;
        };
        /**
         * FactorShown
         * @description One term of a rank. The products of one sum add up to it exactly, by `math.fsum`.
         */
        FactorShown: {
            name: string;
            product: number;
            /** @enum {unknown} */
            sum: "primary" | "secondary";
            value: number;
            weight: number;
        };
        /**
         * FeedbackBody
         * @description What a person makes of an insight.
         */
        FeedbackBody: {
            /** @default  */
            note: string;
            /** @enum {unknown} */
            verdict: "" | "no-anomaly" | "useful";
        };
        /**
         * Fence
         * @description Grows with every grant and every revocation of a job; the epoch grows with every restore.
         */
        Fence: {
            /** @default 0 */
            counter: number;
            /** @default 1 */
            epoch: number;
        };
        /**
         * Gang
         * @description One attempt of several ranks, started together or not at all. The job's resources are those of one rank.
         */
        Gang: {
            /** @default 300 */
            assemblyS: number;
            /** @default null */
            minRanks: number | null;
            /** @default null */
            perNode: number | null;
            ranks: number;
            /** @default null */
            resizeSignal: ("SIGHUP" | "SIGINT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2") | null;
        };
        /**
         * Gpu
         * @description One accelerator as its driver reports it.
         */
        Gpu: {
            index: number;
            memoryMib: number;
            /** @default false */
            mig: boolean;
            model: string;
            /** @default 0 */
            numaNode: number;
            uuid: string;
            /**
             * @default nvidia
             * @enum {unknown}
             */
            vendor: "amd" | "mock" | "nvidia";
        };
        /**
         * GpuJob
         * @description A job that holds GPUs and that the caller may see.
         */
        GpuJob: {
            id: string;
            name: string;
            tenant: string;
            user: string;
        };
        /**
         * GpuMap
         * @description Every GPU as columns of equal length, in the order of `nodes`. Of other tenants' jobs only what they hold.
         */
        GpuMap: {
            at: number;
            busy: number[];
            celsius: number[];
            heldMilli: number[];
            index: number[];
            job: number[];
            jobs: components["schemas"]["GpuJob"][];
            memoryMib: number[];
            nodes: components["schemas"]["GpuNode"][];
            /** @default [] */
            unasked: string[];
            watts: number[];
        };
        /**
         * GpuNode
         * @description A node of the map, with its part of the columns: from `first` on, `gpus` of them.
         */
        GpuNode: {
            cordoned: boolean;
            drained: boolean;
            first: number;
            gpus: number;
            mock: boolean;
            model: string;
            name: string;
            pool: string;
            rack: string;
            ready: boolean;
        };
        /**
         * GpuReading
         * @description What a GPU does at the moment, by its driver.
         */
        GpuReading: {
            /** @default 0 */
            busyPercent: number;
            /** @default null */
            celsius: number | null;
            index: number;
            /** @default 0 */
            memoryMib: number;
            /** @default null */
            watts: number | null;
        };
        /**
         * GpuSeen
         * @description One GPU of a node that comes near, when GPUs are what it lacks.
         */
        GpuSeen: {
            freeMilli: number;
            index: number;
            /** @default [] */
            jobs: string[];
            memoryMib: number;
            /** @default false */
            mig: boolean;
            model: string;
            node: string;
            /** @default 0 */
            numaNode: number;
        };
        /**
         * Holder
         * @description Somebody on the nodes that come nearest. Of other tenants' jobs only what they hold is told.
         */
        Holder: {
            /** @default 0 */
            cpus: number;
            /** @default null */
            endsAt: number | null;
            /** @default 0 */
            gpus: number;
            /** @default  */
            job: string;
            node: string;
            /** @default false */
            reserved: boolean;
            /** @default 0 */
            since: number;
            /** @default  */
            tenant: string;
        };
        /** Ids */
        Ids: {
            ids: string[];
        };
        /**
         * Image
         * @description The container image that the job runs in.
         */
        Image: {
            /** @default null */
            project: string | null;
            ref: string;
        };
        /**
         * InsightList
         * @description The newest first. Those with a known cause or called no anomaly, only where all are asked for.
         */
        InsightList: {
            at: number;
            /** @default [] */
            causes: string[];
            forecasts: components["schemas"]["DemandView"][];
            insights: components["schemas"]["InsightRecord"][];
            judged: number;
            replica: string;
            watched: number;
        };
        /**
         * InsightRecord
         * @description An episode in which a series was not as usual: between `low` and `high`. `cause`: a known one, for which it was
         *         told to no person.
         */
        InsightRecord: {
            /** @default 0 */
            beganAt: number;
            /** @default  */
            by: string;
            /** @default  */
            cause: string;
            /** @default null */
            endedAt: number | null;
            /** @default 0 */
            high: number;
            id: string;
            /** @default {} */
            labels: {
                [key: string]: string;
            };
            /** @default 0 */
            lastAt: number;
            /** @default 0 */
            low: number;
            /** @default  */
            note: string;
            /** @default 0 */
            probability: number;
            /** @default  */
            replica: string;
            series: string;
            /** @default  */
            text: string;
            /** @default 0 */
            value: number;
            /**
             * @default
             * @enum {unknown}
             */
            verdict: "" | "no-anomaly" | "useful";
        };
        /**
         * JobDetail
         * @description One job as its owner sees it.
         */
        JobDetail: {
            /** @default null */
            arrayCounts: {
                [key: string]: number;
            } | null;
            /** @default null */
            arrayThrottle: number | null;
            /** @default null */
            childCounts: {
                [key: string]: number;
            } | null;
            /** @default [] */
            children: components["schemas"]["ChildJob"][];
            /** @default null */
            deadline: components["schemas"]["DeadlineSeen"] | null;
            /** @default false */
            mockGpus: boolean;
            /** @default null */
            progress: components["schemas"]["ProgressRecord"] | null;
            /** @default null */
            queuePosition: number | null;
            /** @default null */
            result: components["schemas"]["Result"] | null;
            spec: components["schemas"]["JobSpec"];
            state: components["schemas"]["JobState"];
            /** @default {} */
            used: components["schemas"]["Use"];
            /** @default null */
            waiting: components["schemas"]["Waiting"] | null;
        };
        /**
         * JobPage
         * @description `cursor` continues the list; it is empty at the end.
         */
        JobPage: {
            /** @default {} */
            arrayCounts: {
                [key: string]: {
                    [key: string]: number;
                };
            };
            /** @default [] */
            atRisk: string[];
            /** @default  */
            cursor: string;
            jobs: components["schemas"]["JobState"][];
            /** @default [] */
            mockGpus: string[];
            /** @default {} */
            used: {
                [key: string]: components["schemas"]["Use"];
            };
            /** @default {} */
            waiting: {
                [key: string]: components["schemas"]["Waiting"];
            };
        };
        /**
         * JobSpec
         * @description The job as asked for. Every field is bounded; `core.admit` checks what spans fields.
         */
        JobSpec: {
            /** @default [] */
            affinity: components["schemas"]["NodeTerm"][];
            /** @default [] */
            alternatives: components["schemas"]["Resources"][];
            /** @default null */
            array: string | null;
            /** @default null */
            beginAt: number | null;
            /** @default null */
            checkpoint: components["schemas"]["CheckpointPolicy"] | null;
            /** @default 0 */
            children: number;
            /** @default null */
            claimedCost: number | null;
            command: string[];
            /** @default null */
            deadlineAt: number | null;
            /** @default false */
            deadlineStrict: boolean;
            /**
             * @default staged
             * @enum {unknown}
             */
            effects: "fenced" | "idempotent" | "staged" | "unsafe";
            /** @default {} */
            env: {
                [key: string]: string;
            };
            /** @default null */
            expectedRuntimeS: number | null;
            /** @default {} */
            expectedRuntimesS: {
                [key: string]: number;
            };
            /** @default false */
            finally: boolean;
            /** @default null */
            gang: components["schemas"]["Gang"] | null;
            /** @default null */
            gapMinS: number | null;
            /** @default 30 */
            graceS: number;
            /** @default false */
            held: boolean;
            /** @default null */
            image: components["schemas"]["Image"] | null;
            /** @default [] */
            inputRefs: string[];
            /** @default [] */
            inputs: components["schemas"]["DataInput"][];
            /**
             * @default any
             * @enum {unknown}
             */
            isolation: "any" | "process" | "sandbox";
            /** @default [] */
            jobAffinity: components["schemas"]["JobTerm"][];
            /** @default {} */
            labels: {
                [key: string]: string;
            };
            /** @default 9 */
            leaseS: number;
            /** @default {} */
            licences: {
                [key: string]: number;
            };
            /** @default job */
            name: string;
            /** @default [] */
            needs: components["schemas"]["Need"][];
            /** @default null */
            needsTimeout: components["schemas"]["NeedsTimeout"] | null;
            /**
             * @default host
             * @enum {unknown}
             */
            network: "host" | "none";
            /** @default [] */
            notify: string[];
            /**
             * @default none
             * @enum {unknown}
             */
            numa: "none" | "preferred" | "required";
            /**
             * @default skip
             * @enum {unknown}
             */
            onImpossible: "fail" | "run" | "skip";
            /** @default {} */
            preemption: components["schemas"]["Preemption"];
            /**
             * @default NORMAL
             * @enum {unknown}
             */
            priority: "BEST_EFFORT" | "CRITICAL" | "HIGH" | "LOW" | "NORMAL";
            /** @default null */
            project: string | null;
            /** @default null */
            python: components["schemas"]["PythonEnvironment"] | null;
            /**
             * @default guaranteed
             * @enum {unknown}
             */
            qos: "best-effort" | "burstable" | "guaranteed";
            /** @default null */
            reservation: string | null;
            /** @default [] */
            residency: string[];
            /** @default {} */
            resources: components["schemas"]["Resources"];
            /**
             * @default on-failure
             * @enum {unknown}
             */
            restart: "always" | "never" | "on-failure";
            /** @default null */
            restoreFrom: components["schemas"]["RestoreFrom"] | null;
            /** @default {} */
            retry: components["schemas"]["RetryPolicy"];
            /** @default null */
            runtime: components["schemas"]["RuntimeWish"] | null;
            /** @default [] */
            secrets: components["schemas"]["SecretRef"][];
            /** @default {} */
            selector: {
                [key: string]: string;
            };
            /** @default null */
            sla: string | null;
            /** @default null */
            startByAt: number | null;
            /** @default null */
            team: string | null;
            /** @default null */
            timeLimitS: number | null;
            /** @default [] */
            tolerations: components["schemas"]["Toleration"][];
            /** @default null */
            topology: components["schemas"]["TopologyWish"] | null;
            /** @default null */
            warn: components["schemas"]["Warn"] | null;
            /** @default null */
            workdir: string | null;
        };
        /**
         * JobState
         * @description The mutable record of a job, replaced whole by compare-and-swap.
         */
        JobState: {
            /** @default 0 */
            alternative: number;
            /** @default null */
            array: string | null;
            /** @default 0 */
            attempt: number;
            /** @default [] */
            avoid: string[];
            /** @default  */
            bookDay: string;
            /** @default null */
            boundAt: number | null;
            /** @default null */
            checkpoint: components["schemas"]["CheckpointPointer"] | null;
            /** @default null */
            childOf: components["schemas"]["ChildOf"] | null;
            /** @default 0 */
            costEstimate: number;
            /** @default 0 */
            cpuS: number;
            /** @default [] */
            damaged: components["schemas"]["CheckpointId"][];
            /** @default null */
            deadlineAt: number | null;
            /** @default null */
            endedAt: number | null;
            /** @default [] */
            endedRanks: number[];
            /** @default 0 */
            estimatedS: number;
            /** @default [] */
            evicting: string[];
            /** @default null */
            exit: components["schemas"]["ExitInfo"] | null;
            /** @default [] */
            failing: components["schemas"]["RankEnd"][];
            /** @default {} */
            fence: components["schemas"]["Fence"];
            /** @default null */
            firstStartedAt: number | null;
            /** @default null */
            flow: string | null;
            /** @default 0 */
            generation: number;
            /** @default 0 */
            gpuS: number;
            /** @default  */
            heldBy: string;
            /** @default [] */
            hold: components["schemas"]["Placement"][];
            id: string;
            /** @default null */
            index: number | null;
            /** @default false */
            isFinally: boolean;
            /** @default null */
            leavesAt: number | null;
            /** @default [] */
            leaving: components["schemas"]["Placement"][];
            /** @default false */
            lingering: boolean;
            /** @default 0 */
            manualRetries: number;
            /** @default 0 */
            masterPort: number;
            /** @default null */
            meteredAt: number | null;
            name: string;
            /** @default false */
            needsMet: boolean;
            /** @default false */
            needsOverdue: boolean;
            /** @default 0 */
            outputBytes: number;
            /** @default [] */
            outputs: components["schemas"]["OutputFile"][];
            /** @default null */
            owner: components["schemas"]["Owner"] | null;
            /** @default 0 */
            ownerSeq: number;
            /**
             * @default PENDING
             * @enum {unknown}
             */
            phase: "CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING";
            /** @default [] */
            placements: components["schemas"]["Placement"][];
            /** @default null */
            plannedS: number | null;
            /** @default null */
            preemptedAt: number | null;
            /** @default 0 */
            preemptions: number;
            /** @default 0 */
            queuedAt: number;
            /** @default 0 */
            quickRestarts: number;
            /** @default [] */
            rates: components["schemas"]["Rate"][];
            /** @default  */
            reason: string;
            /** @default null */
            requestId: string | null;
            /** @default 0 */
            requeues: number;
            /** @default 0 */
            restarts: number;
            /** @default {} */
            retries: {
                [key: string]: number;
            };
            /** @default null */
            retryAt: number | null;
            /** @default 0 */
            retryDelayS: number;
            /** @default null */
            retryOf: string | null;
            /** @default 0 */
            rotations: number;
            /** @default 0 */
            seq: number;
            /** @default null */
            sla: string | null;
            /** @default [] */
            spent: components["schemas"]["Spent"][];
            /** @default null */
            startByAt: number | null;
            /** @default null */
            startedAt: number | null;
            /** @default [] */
            startedRanks: number[];
            /** @default 0 */
            submittedAt: number;
            /** @default  */
            submittedBy: string;
            /** @default  */
            submitterId: string;
            /** @default null */
            team: string | null;
            tenant: string;
            /** @default  */
            trace: string;
            /** @default null */
            unsaved: components["schemas"]["Unsaved"] | null;
            /** @default null */
            update: components["schemas"]["SpecUpdate"] | null;
            /** @default 0 */
            updates: number;
            /** @default null */
            value: unknown;
        };
        /**
         * JobTerm
         * @description Near to, or away from, the tenant's own jobs that carry all these labels.
         */
        JobTerm: {
            /** @default false */
            away: boolean;
            labels: {
                [key: string]: string;
            };
            /**
             * @default node
             * @enum {unknown}
             */
            level: "node" | "rack" | "region" | "zone";
            /** @default true */
            required: boolean;
            /** @default 1 */
            weight: number;
        };
        /**
         * JobTrace
         * @description All spans of a job, in the order in which they began. Ids follow from the job and the attempt's fence: every
         *         replica gives the same ones, and a span has its id before it ends.
         */
        JobTrace: {
            at: number;
            job: string;
            /** @default 0 */
            leftOut: number;
            name: string;
            /** @enum {unknown} */
            phase: "CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING";
            spans: components["schemas"]["TraceSpan"][];
            tenant: string;
            traceId: string;
        };
        /**
         * JobUpdate
         * @description What is to be changed; what is left out stays. `null` takes a limit, deadline, class or reservation away.
         */
        JobUpdate: {
            deadlineAt?: number | null;
            /** @enum {unknown} */
            priority?: "BEST_EFFORT" | "CRITICAL" | "HIGH" | "LOW" | "NORMAL";
            /** @default  */
            reason: string;
            reservation?: string | null;
            resources?: components["schemas"]["ResourceUpdate"];
            sla?: string | null;
            throttle?: number | null;
            timeLimitS?: number | null;
        };
        /**
         * JobWarning
         * @description What is to be said about a job that was taken. That it will not start by itself: `remedy` says whose it is to
         *         change that. Without a remedy: what a policy warns of, or a soft limit that it passes.
         */
        JobWarning: {
            code: ("AFFINITY_UNMET" | "ARRAY_THROTTLE" | "BEGIN_AT" | "HARD_LIMIT" | "HELD" | "HELD_BACK" | "INFEASIBLE_CPU" | "INFEASIBLE_DEVICE" | "INFEASIBLE_GANG" | "INFEASIBLE_GPU" | "INFEASIBLE_GPU_MODEL" | "INFEASIBLE_LICENCE" | "INFEASIBLE_LIMIT" | "INFEASIBLE_MEMORY" | "INFEASIBLE_NUMA" | "INFEASIBLE_POWER" | "INFEASIBLE_TOPOLOGY" | "INSUFFICIENT_CPU" | "INSUFFICIENT_DEVICE" | "INSUFFICIENT_GANG" | "INSUFFICIENT_GPU" | "INSUFFICIENT_LICENCE" | "INSUFFICIENT_MEMORY" | "INSUFFICIENT_NUMA" | "INSUFFICIENT_TOPOLOGY" | "IN_CLUSTER" | "ISOLATION_UNMET" | "JOB_AFFINITY_UNMET" | "NEXT_CYCLE" | "NO_CLUSTER" | "NO_NODES" | "NO_READY_NODES" | "POWER_CAP" | "REFUSED_BY_PLUGIN" | "RESERVATION_ENDING" | "RESERVATION_FULL" | "RESERVATION_PLANNED" | "RESERVED" | "RESIDENCY_UNMET" | "RETRIES_PAUSED" | "SELECTOR_MISMATCH" | "SPOT_ONLY" | "STORAGE_PAUSED" | "TAINTED" | "WAITING_FOR_DATA" | "WAITING_FOR_EVICTION" | "WAITING_FOR_FASTER" | "WAITING_FOR_FLOW" | "WAITING_FOR_JOB") | ("policy" | "soft-limit");
            message: string;
            /** @default  */
            remedy: ("operator" | "wait" | "yours") | "";
        };
        /**
         * KeepBest
         * @description The `n` checkpoints with the best value of a metric.
         */
        KeepBest: {
            /**
             * @default min
             * @enum {unknown}
             */
            goal: "max" | "min";
            metric: string;
            /** @default 1 */
            n: number;
        };
        /**
         * LedgerEvent
         * @description What happened to a job, when, why, and by whom.
         */
        LedgerEvent: {
            at: number;
            /** @default 0 */
            attempt: number;
            /** @default  */
            by: string;
            /** @default {} */
            data: Record<string, never>;
            /** @default  */
            fence: string;
            job: string;
            /** @enum {unknown} */
            kind: "bound" | "cancelled" | "checkpoint-damaged" | "checkpointed" | "confirmed" | "failed" | "held" | "imported" | "lease-lost" | "offer-over" | "offered" | "overdue" | "preempted" | "preempting" | "rank-exited" | "rank-started" | "ready" | "released" | "requeue-requested" | "requeued" | "resized" | "restarted" | "retry-requested" | "retrying" | "started" | "submitted" | "succeeded" | "taken-back" | "unheld" | "unknown" | "unmet" | "updated";
            /** @enum {unknown} */
            phase: "CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING";
            /** @default  */
            reason: string;
            seq: number;
            tenant: string;
        };
        /**
         * LiveUse
         * @description What running jobs use now. `unasked` are nodes that this replica could not ask.
         */
        LiveUse: {
            ranks: components["schemas"]["RankUse"][];
            /** @default [] */
            unasked: string[];
        };
        /**
         * LoginBody
         * @description A login in a browser, with this provider.
         */
        LoginBody: {
            provider: string;
        };
        /**
         * LoginCodeBody
         * @description What the provider sent the browser back with.
         */
        LoginCodeBody: {
            code: string;
            state: string;
        };
        /**
         * MemberList
         * @description By name.
         */
        MemberList: {
            clusters: components["schemas"]["MemberView"][];
        };
        /**
         * MemberView
         * @description A cluster of this global plane. `reach` says how long it has been silent: never a reason to move jobs.
         */
        MemberView: {
            code: string;
            /** @default 0 */
            confirmed: number;
            epoch: number;
            generation: number;
            heardS: number | null;
            /** @enum {unknown} */
            kind: "kubernetes" | "nodes";
            name: string;
            note: string;
            /** @default 0 */
            offered: number;
            /** @enum {unknown} */
            reach: "" | "LATE" | "REACHABLE" | "UNREACHABLE";
            region: string;
            /** @default null */
            report: components["schemas"]["ClusterReport"] | null;
            since: number;
            /** @enum {unknown} */
            state: "ACTIVE" | "DEAD" | "DRAINING" | "JOINING" | "LEFT";
        };
        /**
         * NearMiss
         * @description A node that came far, and what it lacks.
         */
        NearMiss: {
            message: string;
            node: string;
            /** @default {} */
            numbers: {
                [key: string]: number;
            };
            refusedBy: string;
        };
        /**
         * Need
         * @description One condition: on `job`, or on `k` of the jobs in `of`, all of them when `k` is left out.
         */
        Need: {
            /** @default null */
            atStep: number | null;
            /** @default null */
            data: string | null;
            /** @default false */
            each: boolean;
            /** @default null */
            job: string | null;
            /** @default null */
            k: number | null;
            /** @default [] */
            of: components["schemas"]["Parent"][];
            /**
             * @default success
             * @enum {unknown}
             */
            on: "checkpoint" | "end" | "failure" | "start" | "success";
        };
        /**
         * NeedsTimeout
         * @description How long a job waits for its needs, and what becomes of it then.
         */
        NeedsTimeout: {
            afterS: number;
            /**
             * @default fail
             * @enum {unknown}
             */
            then: "fail" | "run" | "skip";
        };
        /**
         * Nic
         * @description A network card, with its link to each GPU in the order of `NodeInfo.gpus`.
         */
        Nic: {
            /** @default [] */
            links: string[];
            name: string;
        };
        /**
         * NodeInfo
         * @description What an agent reports about its machine when it registers. Every field is bounded: it is not believed.
         */
        NodeInfo: {
            /** @default 127.0.0.1 */
            address: string;
            /** @default  */
            agentVersion: string;
            cpuMilli: number;
            /** @default [] */
            datasets: string[];
            /** @default {} */
            devices: {
                [key: string]: string[];
            };
            /** @default true */
            fences: boolean;
            /** @default [] */
            gpuLinks: string[][];
            /** @default [] */
            gpus: components["schemas"]["Gpu"][];
            /** @default  */
            hostname: string;
            /**
             * @default [
             *       "none"
             *     ]
             */
            isolation: ("cgroup-v1" | "cgroup-v2" | "none" | "pid-namespace")[];
            /**
             * @default any
             * @enum {unknown}
             */
            isolationLevel: "any" | "process" | "sandbox";
            /** @default  */
            kernel: string;
            /** @default {} */
            labels: {
                [key: string]: string;
            };
            memoryMib: number;
            name: string;
            /** @default 0 */
            networkGbps: number;
            /** @default [] */
            nics: components["schemas"]["Nic"][];
            /** @default [] */
            numa: components["schemas"]["NumaNode"][];
            /** @default 0 */
            peerPort: number;
            /** @default default */
            pool: string;
            /** @default  */
            rack: string;
            /** @default  */
            region: string;
            /** @default [] */
            sandbox: string[];
            /** @default [] */
            taints: components["schemas"]["Taint"][];
            /** @default  */
            zone: string;
        };
        /** NodeList */
        NodeList: {
            nodes: components["schemas"]["NodeView"][];
        };
        /**
         * NodeTerm
         * @description A condition on a node's labels: without it no node, or with `weight` a better one.
         */
        NodeTerm: {
            key: string;
            /**
             * @default in
             * @enum {unknown}
             */
            op: "absent" | "exists" | "gt" | "in" | "lt" | "not-in";
            /** @default true */
            required: boolean;
            /** @default [] */
            values: string[];
            /** @default 1 */
            weight: number;
        };
        /**
         * NodeView
         * @description A node with what is free on it now: nothing while no job can be sent there.
         */
        NodeView: {
            cordoned: boolean;
            cpuMilliFree: number;
            drainedBy: string;
            gpusFree: number;
            incarnation: number;
            info: components["schemas"]["NodeInfo"];
            leaseAgeS: number | null;
            memoryMibFree: number;
            name: string;
            ready: boolean;
            running: number;
            taints: components["schemas"]["Taint"][];
        };
        /**
         * NumaNode
         * @description One memory domain with its CPUs.
         */
        NumaNode: {
            cpus: number[];
            index: number;
            memoryMib: number;
        };
        /**
         * Offer
         * @description One way to run the job. `asked` says what differs from what was asked for first.
         */
        Offer: {
            asked: string;
            /** @default [] */
            placements: components["schemas"]["Placement"][];
            /** @default null */
            priceHour: number | null;
            starts: components["schemas"]["Eta"];
        };
        /**
         * OpenedSession
         * @description Its secret is in the cookie that came with this answer.
         */
        OpenedSession: {
            expiresAt: number | null;
            /** @enum {unknown} */
            role: "admin" | "auditor" | "cluster" | "node" | "operator" | "submitter" | "tenant-admin" | "viewer";
            tenant: string;
            user: string;
        };
        /**
         * OutputFile
         * @description One file that a job handed over, by its path below ARES_OUTPUT_DIR; of a gang, below `rank-N/`.
         */
        OutputFile: {
            path: string;
            sha256: string;
            size: number;
        };
        /**
         * OutputList
         * @description The files of a job's committed result, by path. Without a result there are none.
         */
        OutputList: {
            /** @default 0 */
            attempt: number;
            /** @default false */
            committed: boolean;
            /** @default null */
            fence: components["schemas"]["Fence"] | null;
            /** @default [] */
            files: components["schemas"]["OutputFile"][];
            job: string;
        };
        /**
         * Overview
         * @description Jobs are the tenant's that is asked for; machines are the platform's.
         */
        Overview: {
            at: number;
            cpuMilli: number;
            cpuMilliHeld: number;
            gpus: number;
            gpusHeld: number;
            gpusReady: number;
            jobs: {
                [key: string]: number;
            };
            leader: string;
            memoryMib: number;
            memoryMibHeld: number;
            mockGpus: boolean;
            nodes: number;
            nodesCordoned: number;
            nodesReady: number;
            oldestJob: string;
            oldestQueuedAt: number | null;
            promises: components["schemas"]["SlaView"][];
            storeAgeS: number;
            tenant: string;
            tenants: components["schemas"]["TenantJobs"][];
            waiting: components["schemas"]["WaitingGroup"][];
        };
        /**
         * Owner
         * @description Which cluster has a job, inside the job's state: one compare guards both.
         *
         *         Invariant: `epoch` never falls; a HELD job has no cluster.
         */
        Owner: {
            /** @default  */
            cluster: string;
            /** @default 0 */
            epoch: number;
            /**
             * @default HELD
             * @enum {unknown}
             */
            stage: "CONFIRMED" | "HELD" | "OFFERED";
        };
        /**
         * Parent
         * @description One job of several.
         */
        Parent: {
            job: string;
        };
        /**
         * PeriodReport
         * @description With `complete`, every day of it is closed: made again, it is the same to the byte, but for users and chains of a
         *         compliance report, which are told as of its making. `digest` is the SHA-256 of the
         *         report as JSON without spaces, in this order of fields, with an empty digest.
         */
        PeriodReport: {
            cluster: string;
            complete: boolean;
            currency: string;
            /** @default  */
            digest: string;
            firstDay: string;
            heads: components["schemas"]["ReportHead"][];
            incarnation: number;
            /** @enum {unknown} */
            kind: "compliance" | "cost" | "sla";
            lastDay: string;
            remarks: string[];
            tables: components["schemas"]["ReportTable"][];
            tenant: string;
            title: string;
        };
        /**
         * Placement
         * @description Where one rank of an attempt runs, and what it holds there.
         */
        Placement: {
            cpuMilli: number;
            /** @default {} */
            devices: {
                [key: string]: string[];
            };
            /** @default 1000 */
            gpuMilli: number;
            /** @default [] */
            gpus: number[];
            incarnation: number;
            memoryMib: number;
            node: string;
            /** @default null */
            numa: number | null;
            /** @default 0 */
            rank: number;
        };
        /**
         * PlanAnswer
         * @description What would happen if the job were submitted now. Nothing was changed.
         */
        PlanAnswer: {
            /** @default 0 */
            ahead: number;
            /** @default null */
            change: components["schemas"]["Change"] | null;
            /** @default null */
            deadline: components["schemas"]["DeadlineSeen"] | null;
            /** @default null */
            defaultMemoryMib: number | null;
            /** @default null */
            eviction: Record<string, never> | null;
            /** @default  */
            noEviction: string;
            /** @default [] */
            offers: components["schemas"]["Offer"][];
            profileVersion: number;
            /** @default null */
            reason: components["schemas"]["Reason"] | null;
            /** @default null */
            remedy: ("operator" | "wait" | "yours") | null;
            revision: number;
            /** @default null */
            routing: components["schemas"]["RouteSeen"] | null;
            startsNow: boolean;
            /** @default [] */
            warnings: string[];
        };
        /**
         * PlatformStatus
         * @description As one replica sees it. `verdict` is that of the worst part; parts that are not well come first.
         */
        PlatformStatus: {
            at: number;
            cluster: string;
            /** @default 0 */
            leftOut: number;
            parts: components["schemas"]["StatusPart"][];
            replica: string;
            /** @enum {unknown} */
            verdict: "bad" | "ok" | "warn";
        };
        /**
         * Pool
         * @description Nodes under one name: how far they are over-committed, and what they cost.
         */
        Pool: {
            /** @default 0 */
            cpuHour: number;
            /** @default null */
            cpuWatts: number | null;
            /** @default 0 */
            gpuHour: number;
            /** @default null */
            gpuIdleWatts: number | null;
            /** @default 0 */
            gpuWatts: number;
            /** @default 0 */
            interruptionsHour: number;
            /** @default 0 */
            memoryGibHour: number;
            /** @default 1 */
            overcommitCpu: number;
            /** @default 1 */
            overcommitMemory: number;
            /** @default 0 */
            powerCapWatts: number;
            /** @default false */
            spot: boolean;
            /** @default 1 */
            spotFactor: number;
        };
        /**
         * PoolBooking
         * @description A reservation's part of the pool. Of other tenants' only that there is one.
         */
        PoolBooking: {
            cpuMilli: number;
            gpus: number;
            name: string;
            start: number;
            /** @enum {unknown} */
            state: "active" | "cancelled" | "ended" | "planned" | "released";
            until: number;
        };
        /** PoolList */
        PoolList: {
            nodepools: components["schemas"]["PoolView"][];
        };
        /**
         * PoolPromise
         * @description Room that the latest plan holds for a waiting job from `start` on. Of other tenants' jobs without a name.
         */
        PoolPromise: {
            gpus: number;
            job: string;
            nodes: number;
            start: number;
            until: number | null;
        };
        /**
         * PoolView
         * @description Nodes of one pool, summed.
         */
        PoolView: {
            cordonedNodes: number;
            cpuMilli: number;
            cpuMilliFree: number;
            drainedNodes: number;
            gpuModels: {
                [key: string]: number;
            };
            gpus: number;
            gpusFree: number;
            gpusHeld: number;
            gpusKept: number;
            gpusReserved: number;
            memoryMib: number;
            memoryMibFree: number;
            /** @default 0 */
            mockGpus: number;
            name: string;
            nodes: number;
            pendingJobs: number;
            powerWatts: number;
            promises: components["schemas"]["PoolPromise"][];
            readyNodes: number;
            reservations: components["schemas"]["PoolBooking"][];
            runningJobs: number;
            shapes: components["schemas"]["ShapeEta"][];
            terms: components["schemas"]["Pool"];
        };
        /**
         * Preemption
         * @description What happens to the job when a more important one needs its place.
         */
        Preemption: {
            /** @default true */
            allowed: boolean;
            /** @default null */
            checkpointSignal: ("SIGHUP" | "SIGINT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2") | null;
            /** @default 30 */
            waitS: number;
        };
        /**
         * PrioList
         * @description Waiting jobs, the first to be placed first.
         */
        PrioList: {
            jobs: components["schemas"]["PrioRow"][];
        };
        /**
         * PrioRow
         * @description One waiting job and the factors that sum to its rank.
         */
        PrioRow: {
            factors: components["schemas"]["FactorShown"][];
            job: string;
            name: string;
            priority: string;
            rank: number;
            secondary: number;
            tenant: string;
        };
        /**
         * ProgressRecord
         * @description The newest progress a running job reported about itself.
         */
        ProgressRecord: {
            /** @default 0 */
            at: number;
            fence: components["schemas"]["Fence"];
            /** @default null */
            fraction: number | null;
            job: string;
            /** @default  */
            message: string;
        };
        /**
         * Promise
         * @description Seconds since the epoch; `until` is when it will have ended, None when nobody can say.
         */
        Promise: {
            firstStart: number;
            /** @default null */
            heldFrom: number | null;
            job: string;
            madeAt: number;
            placements: components["schemas"]["Placement"][];
            start: number;
            until: number | null;
        };
        /**
         * ProviderView
         * @description What a client needs to log in with a provider: RFC 8628.
         */
        ProviderView: {
            clientId: string;
            deviceUrl: string;
            issuer: string;
            name: string;
            scopes: string;
            /** @enum {unknown} */
            send: "access_token" | "id_token";
            tokenUrl: string;
        };
        /**
         * PythonEnvironment
         * @description Where the job's `python` comes from: an environment that its node has at `path`, or one that the node builds,
         *         once, from `file` of the files in `project`.
         */
        PythonEnvironment: {
            /** @default  */
            file: string;
            /** @default null */
            path: string | null;
            /** @default null */
            project: string | null;
            /** @default true */
            required: boolean;
        };
        /**
         * Ranked
         * @description One node under some weights.
         */
        Ranked: {
            node: string;
            parts: {
                [key: string]: number;
            };
            /** @default 0 */
            ranks: number;
            score: number;
        };
        /**
         * RankEnd
         * @description How a rank of a gang failed, kept until it is known which rank made the others fail.
         */
        RankEnd: {
            at: number;
            /** @default null */
            blames: number | null;
            exit: components["schemas"]["ExitInfo"];
            rank: number;
        };
        /**
         * RankUse
         * @description What one rank of a running job uses now, beside what it asked for.
         */
        RankUse: {
            cpus: number;
            cpusAsked: number;
            /** @default [] */
            devices: components["schemas"]["GpuReading"][];
            /** @default null */
            gpuMemoryBytes: number | null;
            /** @default [] */
            gpus: number[];
            /** @default null */
            gpusBusy: number | null;
            job: string;
            memoryAskedBytes: number;
            memoryBytes: number;
            /** @default false */
            mockGpus: boolean;
            name: string;
            node: string;
            processes: number;
            rank: number;
            tenant: string;
            user: string;
        };
        /**
         * Rate
         * @description What one rank draws and costs while it holds its place, as of the grant.
         */
        Rate: {
            /** @default  */
            gpuModel: string;
            /** @default 0 */
            perHour: number;
            /** @default  */
            pool: string;
            /** @default 0 */
            watts: number;
        };
        /**
         * Reason
         * @description `numbers` hold the nearest miss: what is asked for, what the best node has, how many nodes came that far.
         */
        Reason: {
            /** @enum {unknown} */
            code: "AFFINITY_UNMET" | "ARRAY_THROTTLE" | "BEGIN_AT" | "HARD_LIMIT" | "HELD" | "HELD_BACK" | "INFEASIBLE_CPU" | "INFEASIBLE_DEVICE" | "INFEASIBLE_GANG" | "INFEASIBLE_GPU" | "INFEASIBLE_GPU_MODEL" | "INFEASIBLE_LICENCE" | "INFEASIBLE_LIMIT" | "INFEASIBLE_MEMORY" | "INFEASIBLE_NUMA" | "INFEASIBLE_POWER" | "INFEASIBLE_TOPOLOGY" | "INSUFFICIENT_CPU" | "INSUFFICIENT_DEVICE" | "INSUFFICIENT_GANG" | "INSUFFICIENT_GPU" | "INSUFFICIENT_LICENCE" | "INSUFFICIENT_MEMORY" | "INSUFFICIENT_NUMA" | "INSUFFICIENT_TOPOLOGY" | "IN_CLUSTER" | "ISOLATION_UNMET" | "JOB_AFFINITY_UNMET" | "NEXT_CYCLE" | "NO_CLUSTER" | "NO_NODES" | "NO_READY_NODES" | "POWER_CAP" | "REFUSED_BY_PLUGIN" | "RESERVATION_ENDING" | "RESERVATION_FULL" | "RESERVATION_PLANNED" | "RESERVED" | "RESIDENCY_UNMET" | "RETRIES_PAUSED" | "SELECTOR_MISMATCH" | "SPOT_ONLY" | "STORAGE_PAUSED" | "TAINTED" | "WAITING_FOR_DATA" | "WAITING_FOR_EVICTION" | "WAITING_FOR_FASTER" | "WAITING_FOR_FLOW" | "WAITING_FOR_JOB";
            message: string;
            /** @default {} */
            numbers: {
                [key: string]: number;
            };
        };
        /**
         * ReasonBody
         * @description Why, for the ledger.
         */
        ReasonBody: {
            /** @default  */
            reason: string;
        };
        /**
         * ReplayAnswer
         * @description A past decision, made again with other weights.
         */
        ReplayAnswer: {
            at: number;
            chosen: string[];
            chosenAgain: string[];
            decision: string;
            job: string;
            kept: number;
            nodes: components["schemas"]["Ranked"][];
            passing: number;
            profileVersion: number;
            same: boolean;
            weights: components["schemas"]["Weight"][];
        };
        /**
         * ReplayBody
         * @description Weights of scorers to be changed, by name: {"cost": 0.3}.
         */
        ReplayBody: {
            /** @default {} */
            weights: {
                [key: string]: number;
            };
        };
        /**
         * ReportBody
         * @description Days by UTC, both included; without them the last seven.
         */
        ReportBody: {
            first?: string;
            /**
             * @default json
             * @enum {unknown}
             */
            format: "csv" | "html" | "json";
            last?: string;
        };
        /**
         * ReportedEta
         * @description A job of this size, and that runs no longer, would start within so many seconds, in four of five cases: by the
         *         cluster's own estimate.
         */
        ReportedEta: {
            cpuMilli: number;
            /** @default 0 */
            eta80S: number;
            /** @default 0 */
            gpus: number;
            memoryMib: number;
            /** @default 1 */
            ranks: number;
            /** @default 1000000000 */
            runS: number;
        };
        /**
         * ReportedRoom
         * @description So many machines on each of which at least this much is free.
         */
        ReportedRoom: {
            /** @default 0 */
            cpuMilli: number;
            /** @default 0 */
            gpus: number;
            machines: number;
            /** @default 0 */
            memoryMib: number;
        };
        /**
         * ReportedShape
         * @description Nodes that are alike: what one of them has, how many there are, and what is free on all of them together.
         */
        ReportedShape: {
            /** @default  */
            arch: string;
            /** @default 0 */
            bootS: number;
            /** @default 0 */
            cpuHour: number;
            cpuMilli: number;
            /** @default 0 */
            drainHour: number;
            /** @default [] */
            etas: components["schemas"]["ReportedEta"][];
            /** @default 0 */
            freeCpuMilli: number;
            /** @default 0 */
            freeGpus: number;
            /** @default 0 */
            freeMemoryMib: number;
            /** @default 0 */
            gpuHour: number;
            /** @default 0 */
            gpuMemoryMib: number;
            /** @default  */
            gpuModel: string;
            /** @default 0 */
            gpus: number;
            /** @default 0 */
            interruptionsHour: number;
            /** @default 0 */
            memoryGibHour: number;
            memoryMib: number;
            /** @default 1 */
            nodes: number;
            /** @default  */
            pool: string;
            /** @default [] */
            rooms: components["schemas"]["ReportedRoom"][];
            /** @default false */
            spot: boolean;
        };
        /**
         * ReportHead
         * @description How far the audit chain of a replica had come, signed, at the end of the period or before.
         */
        ReportHead: {
            at: number;
            chain: string;
            hash: string;
            key: string;
            seq: number;
        };
        /**
         * ReportTable
         * @description `note` says what is counted, and by which rules.
         */
        ReportTable: {
            columns: string[];
            /** @default  */
            note: string;
            rows: (string | number | null)[][];
            title: string;
        };
        /**
         * Resources
         * @description Integers only: shares are in thousandths, memory in MiB.
         */
        Resources: {
            /** @default 1000 */
            cpuMilli: number;
            /** @default {} */
            devices: {
                [key: string]: number;
            };
            /** @default 0 */
            gpuMemoryMib: number;
            /** @default 1000 */
            gpuMilli: number;
            /** @default null */
            gpuModel: string | null;
            /** @default 0 */
            gpus: number;
            /** @default 256 */
            memoryMib: number;
        };
        /**
         * ResourceUpdate
         * @description What of a job's resources is to be changed; what is left out stays.
         */
        ResourceUpdate: {
            cpuMilli?: number;
            devices?: {
                [key: string]: number;
            };
            gpuMemoryMib?: number;
            gpuMilli?: number;
            gpuModel?: string | null;
            gpus?: number;
            memoryMib?: number;
        };
        /**
         * RestoreFrom
         * @description The checkpoint of another job of the tenant that a new job goes on from: number `seq`, or its newest.
         */
        RestoreFrom: {
            job: string;
            /** @default null */
            seq: number | null;
        };
        /**
         * Result
         * @description The one committed result of a job.
         */
        Result: {
            attempt: number;
            committedAt: number;
            exit: components["schemas"]["ExitInfo"];
            fence: components["schemas"]["Fence"];
            job: string;
            /** @default [] */
            outputs: components["schemas"]["OutputFile"][];
            /** @default null */
            value: unknown;
        };
        /**
         * RetryPolicy
         * @description How often and how patiently a failed attempt is repeated. Delays use full jitter.
         */
        RetryPolicy: {
            /** @default 1 */
            baseS: number;
            /** @default {} */
            classLimits: {
                [key: string]: number;
            };
            /** @default [] */
            finalExitCodes: number[];
            /** @default 3 */
            limit: number;
            /** @default 300 */
            maxS: number;
            /** @default 2 */
            multiplier: number;
            /** @default 1 */
            oomMemoryFactor: number;
            /** @default null */
            oomMemoryMaxMib: number | null;
        };
        /**
         * RoutedCluster
         * @description One cluster in a decision: its terms and their sum, the machines they are for, and the report they are from.
         */
        RoutedCluster: {
            cluster: string;
            /** @default 0 */
            free: number;
            /** @default 0 */
            incarnation: number;
            /** @default  */
            machines: string;
            /** @default 0 */
            offered: number;
            score: number;
            /** @default 0 */
            seq: number;
            terms: components["schemas"]["RouteTerms"];
        };
        /**
         * RouteDecision
         * @description Kept with the job. `ranked` has the best first; the first is the choice. Of many clusters the last are left out,
         *         and counted in `more`.
         */
        RouteDecision: {
            /** @default  */
            catalogue: string;
            /** @default 0 */
            more: number;
            /** @default [] */
            ranked: components["schemas"]["RoutedCluster"][];
            /** @default [] */
            refused: components["schemas"]["RouteRefusal"][];
            /**
             * @default {
             *       "moneyS": 60,
             *       "rtt": 1,
             *       "age": 0.5
             *     }
             */
            weights: components["schemas"]["RouteWeights"];
        };
        /**
         * RouteFlip
         * @description The one term whose change makes the runner-up the winner: in its own unit, what it is and what it would be.
         */
        RouteFlip: {
            cluster: string;
            flipsAt: number;
            now: number;
            term: string;
        };
        /**
         * RouteRefusal
         * @description Why a cluster gets no offer of this job, with numbers.
         */
        RouteRefusal: {
            cluster: string;
            /** @enum {unknown} */
            code: "architecture" | "budget" | "deadline" | "declined" | "not-active" | "policy" | "residency" | "selector" | "silent" | "too-large";
            message: string;
        };
        /**
         * RouteSeen
         * @description Which cluster a job goes to, and what that was decided by. Without a decision, the message says why there is
         *         none.
         */
        RouteSeen: {
            /** @default null */
            at: number | null;
            /** @default null */
            decision: components["schemas"]["RouteDecision"] | null;
            /** @default null */
            flip: components["schemas"]["RouteFlip"] | null;
            message: string;
        };
        /**
         * RouteTerms
         * @description In seconds and in money. A test and a judge recompute the score from them; a term that is left out is 0.
         */
        RouteTerms: {
            /** @default 0 */
            ageS: number;
            /** @default 0 */
            bootS: number;
            /** @default 0 */
            dataS: number;
            /** @default 0 */
            egressCost: number;
            /** @default 0 */
            imageS: number;
            /** @default 0 */
            interruptionCost: number;
            /** @default 0 */
            rttS: number;
            /** @default 0 */
            runCost: number;
            /** @default 0 */
            runS: number;
            /** @default 0 */
            waitS: number;
        };
        /**
         * RouteWeights
         * @description What makes one sum of all terms: seconds for a unit of money, for a second of round trip, for one of a report's
         *         age. The first is the tenant's or the priority's.
         */
        RouteWeights: {
            /** @default 0.5 */
            age: number;
            /** @default 60 */
            moneyS: number;
            /** @default 1 */
            rtt: number;
        };
        /**
         * RuntimeWish
         * @description What starts the processes of each rank: the launcher of a framework, or one that a plugin adds.
         */
        RuntimeWish: {
            /** @default false */
            elastic: boolean;
            /** @default  */
            flavour: string;
            /** @default null */
            headCpus: number | null;
            kind: string;
            /** @default null */
            procs: number | "gpus" | null;
        };
        /**
         * SecretRef
         * @description A secret of the tenant that a job is given: as a variable of its environment, or as a file.
         */
        SecretRef: {
            /** @default null */
            env: string | null;
            /** @default null */
            file: string | null;
            name: string;
        };
        /**
         * Sent
         * @description How far a channel is with an alert.
         */
        Sent: {
            /** @default null */
            arrivedAt: number | null;
            /** @default 0 */
            episode: number;
            /** @default  */
            error: string;
            /** @default false */
            givenUp: boolean;
            /** @default 0 */
            nextAt: number;
            /** @default 0 */
            tries: number;
        };
        /**
         * SeriesAnswer
         * @description The first point is of the step that begins at `since`. Times are seconds since the epoch.
         */
        SeriesAnswer: {
            at: number;
            kept: number;
            keptMax: number;
            replica: string;
            series: components["schemas"]["SeriesPoints"][];
            since: number;
            stepS: number;
        };
        /**
         * SeriesPoints
         * @description One series. `points` are means over the steps, the oldest first; None where nothing was measured.
         */
        SeriesPoints: {
            labels: {
                [key: string]: string;
            };
            /** @default null */
            latest: number | null;
            name: string;
            /** @default [] */
            points: (number | null)[];
        };
        /**
         * Shape
         * @description A size of job. Resources are those of one rank; `words` name it.
         */
        Shape: {
            /** @default 1 */
            ranks: number;
            resources: components["schemas"]["Resources"];
            words: string;
        };
        /**
         * ShapeEta
         * @description Without `starts` it can never run there, and `never` says why.
         */
        ShapeEta: {
            /** @default  */
            never: string;
            shape: components["schemas"]["Shape"];
            /** @default null */
            starts: components["schemas"]["Eta"] | null;
        };
        /**
         * SlaList
         * @description By name; deadlines that jobs have of their own come first, without one.
         */
        SlaList: {
            /** @default 0 */
            at: number;
            classes: components["schemas"]["SlaView"][];
            /** @default [] */
            clusters: components["schemas"]["ClusterAge"][];
        };
        /**
         * SlaView
         * @description How jobs of one class of service fared, of those that are kept and were decided within the period that was asked
         *         for. Without a name: deadlines of their own.
         */
        SlaView: {
            /** @default 0 */
            atRisk: number;
            /** @default [] */
            atRiskJobs: string[];
            /** @default null */
            budgetLeftPercent: number | null;
            /** @default null */
            cluster: string | null;
            /** @default null */
            endWithinS: number | null;
            /** @default 0 */
            jobs: number;
            /** @default 0 */
            met: number;
            /** @default null */
            metPercent: number | null;
            /** @default 0 */
            missed: number;
            name: string;
            /** @default 0 */
            open: number;
            /** @default null */
            startWithinS: number | null;
            /** @default 95 */
            targetPercent: number;
            /** @default null */
            tenant: string | null;
        };
        /**
         * SpanLink
         * @description A span of this or of another trace that a span goes on from.
         */
        SpanLink: {
            spanId: string;
            traceId: string;
            /** @default  */
            why: string;
        };
        /**
         * SpecUpdate
         * @description What a job asks for instead of what its specification says. A field that is left out stays as it was.
         */
        SpecUpdate: {
            deadlineAt?: number | null;
            inputs?: components["schemas"]["DataInput"][];
            /** @enum {unknown} */
            priority?: "BEST_EFFORT" | "CRITICAL" | "HIGH" | "LOW" | "NORMAL";
            reservation?: string | null;
            resources?: components["schemas"]["Resources"];
            sla?: string | null;
            startByAt?: number | null;
            timeLimitS?: number | null;
        };
        /**
         * Spent
         * @description What a job used in one pool on one GPU model.
         */
        Spent: {
            /** @default 0 */
            cost: number;
            /** @default 0 */
            cpuS: number;
            /** @default 0 */
            energyJ: number;
            /**
             * @default kept
             * @enum {unknown}
             */
            fate: "kept" | "lost" | "open";
            /** @default  */
            gpuModel: string;
            /** @default 0 */
            gpuS: number;
            /** @default  */
            pool: string;
        };
        /**
         * Standing
         * @description One level of the tenant tree: what is asked for, used, allowed and free of one resource.
         */
        Standing: {
            asked: number;
            limit: number | null;
            path: string;
            resource: string;
            soft: number | null;
            used: number;
        };
        /**
         * StatusPart
         * @description One part. `age_s` is the age of the newest sign of it, None where there is no such thing.
         */
        StatusPart: {
            /** @default null */
            ageS: number | null;
            /** @enum {unknown} */
            kind: "alerts" | "backup" | "certificate" | "disk" | "leader" | "node" | "nodes" | "records" | "replica" | "store";
            message: string;
            name: string;
            /** @enum {unknown} */
            verdict: "bad" | "ok" | "warn";
        };
        /**
         * Step
         * @description One filter, and how many nodes were left after it.
         */
        Step: {
            filter: string;
            nodes: number;
        };
        /**
         * SubmitBody
         * @description A job to submit. Fields beside `spec` fill it where it says nothing itself.
         */
        SubmitBody: {
            /** @default null */
            costEstimate: number | null;
            /** @default null */
            estimateCores: number | null;
            /** @default null */
            expectedRuntime: number | null;
            /** @default null */
            inputRefs: string[] | null;
            /** @default null */
            priority: ("BEST_EFFORT" | "CRITICAL" | "HIGH" | "LOW" | "NORMAL") | number | null;
            /** @default null */
            requestId: string | null;
            spec: components["schemas"]["JobSpec"];
            /** @default null */
            tenantId: string | null;
        };
        /**
         * Taint
         * @description Keeps jobs away that do not tolerate it: altogether, or where there is a better place.
         */
        Taint: {
            /**
             * @default no-schedule
             * @enum {unknown}
             */
            effect: "no-schedule" | "prefer-not";
            key: string;
            /** @default  */
            value: string;
        };
        /**
         * TenantJobs
         * @description How many jobs of a tenant have not ended, by phase.
         */
        TenantJobs: {
            jobs: {
                [key: string]: number;
            };
            tenant: string;
        };
        /**
         * Toleration
         * @description Taints the job puts up with: of one key, and of one value unless it is left out.
         */
        Toleration: {
            key: string;
            /** @default null */
            value: string | null;
        };
        /**
         * TopologyWish
         * @description How close together a job's GPUs and ranks must be, or should be.
         */
        TopologyWish: {
            /** @enum {unknown} */
            level: "node" | "nvlink" | "rack" | "region" | "zone";
            /** @default false */
            required: boolean;
        };
        /**
         * TraceSpan
         * @description One stretch of a job's way. `ended_at` is None while it lasts. Times are seconds since the epoch.
         */
        TraceSpan: {
            /** @default 0 */
            attempt: number;
            /** @default {} */
            attributes: {
                [key: string]: string | number;
            };
            beganAt: number;
            /** @default null */
            endedAt: number | null;
            /** @default  */
            label: string;
            /** @default [] */
            links: components["schemas"]["SpanLink"][];
            /** @default  */
            message: string;
            /** @enum {unknown} */
            name: "backoff" | "commit" | "job" | "place" | "program" | "queue" | "route" | "run" | "start" | "stop" | "submit";
            parentId: string;
            /** @default null */
            rank: number | null;
            spanId: string;
            /**
             * @default unset
             * @enum {unknown}
             */
            status: "error" | "ok" | "unset";
        };
        /**
         * Unsaved
         * @description What an attempt that was taken away used since its newest checkpoint. It may still save one.
         */
        Unsaved: {
            since: number;
            /** @default [] */
            spent: components["schemas"]["Spent"][];
            until: number;
        };
        /**
         * UplinkView
         * @description How a cluster stands with its global plane.
         */
        UplinkView: {
            api: string;
            code: string;
            /** @enum {unknown} */
            mode: "AUTONOMOUS" | "FEDERATED" | "RECONCILING";
            /** @default 0 */
            modeS: number;
            name: string;
            servers: string[];
            /** @default 0 */
            taken: number;
            /** @default  */
            why: string;
        };
        /**
         * UsageReport
         * @description Jobs that ended since then or have not ended, with all they used. Jobs that were forgotten are not in it.
         */
        UsageReport: {
            /** @enum {unknown} */
            by: "cluster" | "gpu-model" | "job" | "pool" | "team" | "tenant" | "user";
            /** @default [] */
            clusters: components["schemas"]["ClusterAge"][];
            groups: number;
            knownSince: number | null;
            rows: components["schemas"]["UsageRow"][];
            since: number;
            total: components["schemas"]["UsageRow"];
            until: number;
        };
        /**
         * UsageRow
         * @description One group. Energy is an estimate from above: what was held, at full load.
         */
        UsageRow: {
            /** @default 0 */
            cost: number;
            /** @default 0 */
            cpuHours: number;
            /** @default 0 */
            energyKwh: number;
            /** @default 0 */
            gpuHours: number;
            /** @default 0 */
            jobs: number;
            key: string;
            /** @default  */
            name: string;
            /** @default 0 */
            wastedCost: number;
            /** @default 0 */
            wastedCpuHours: number;
            /** @default 0 */
            wastedGpuHours: number;
        };
        /**
         * Use
         * @description Of one job, all attempts together, up to now.
         */
        Use: {
            /** @default 0 */
            cost: number;
            /** @default 0 */
            cpuS: number;
            /** @default 0 */
            energyWh: number;
            /** @default 0 */
            gpuS: number;
            /** @default 0 */
            lostGpuS: number;
            /** @default 0 */
            perHour: number;
            /** @default 0 */
            watts: number;
        };
        /**
         * Waiting
         * @description Why a pending job waits, and whose it is to change that: `yours`, others' whose end to `wait` for, `operator`.
         */
        Waiting: {
            /** @enum {unknown} */
            code: "AFFINITY_UNMET" | "ARRAY_THROTTLE" | "BEGIN_AT" | "HARD_LIMIT" | "HELD" | "HELD_BACK" | "INFEASIBLE_CPU" | "INFEASIBLE_DEVICE" | "INFEASIBLE_GANG" | "INFEASIBLE_GPU" | "INFEASIBLE_GPU_MODEL" | "INFEASIBLE_LICENCE" | "INFEASIBLE_LIMIT" | "INFEASIBLE_MEMORY" | "INFEASIBLE_NUMA" | "INFEASIBLE_POWER" | "INFEASIBLE_TOPOLOGY" | "INSUFFICIENT_CPU" | "INSUFFICIENT_DEVICE" | "INSUFFICIENT_GANG" | "INSUFFICIENT_GPU" | "INSUFFICIENT_LICENCE" | "INSUFFICIENT_MEMORY" | "INSUFFICIENT_NUMA" | "INSUFFICIENT_TOPOLOGY" | "IN_CLUSTER" | "ISOLATION_UNMET" | "JOB_AFFINITY_UNMET" | "NEXT_CYCLE" | "NO_CLUSTER" | "NO_NODES" | "NO_READY_NODES" | "POWER_CAP" | "REFUSED_BY_PLUGIN" | "RESERVATION_ENDING" | "RESERVATION_FULL" | "RESERVATION_PLANNED" | "RESERVED" | "RESIDENCY_UNMET" | "RETRIES_PAUSED" | "SELECTOR_MISMATCH" | "SPOT_ONLY" | "STORAGE_PAUSED" | "TAINTED" | "WAITING_FOR_DATA" | "WAITING_FOR_EVICTION" | "WAITING_FOR_FASTER" | "WAITING_FOR_FLOW" | "WAITING_FOR_JOB";
            /** @default null */
            eta: components["schemas"]["Eta"] | null;
            message: string;
            /** @default {} */
            numbers: {
                [key: string]: number;
            };
            /** @enum {unknown} */
            remedy: "operator" | "wait" | "yours";
        };
        /**
         * WaitingGroup
         * @description Jobs that wait for the same reason. `example` is one of them, with the message it is told.
         */
        WaitingGroup: {
            /** @enum {unknown} */
            code: "AFFINITY_UNMET" | "ARRAY_THROTTLE" | "BEGIN_AT" | "HARD_LIMIT" | "HELD" | "HELD_BACK" | "INFEASIBLE_CPU" | "INFEASIBLE_DEVICE" | "INFEASIBLE_GANG" | "INFEASIBLE_GPU" | "INFEASIBLE_GPU_MODEL" | "INFEASIBLE_LICENCE" | "INFEASIBLE_LIMIT" | "INFEASIBLE_MEMORY" | "INFEASIBLE_NUMA" | "INFEASIBLE_POWER" | "INFEASIBLE_TOPOLOGY" | "INSUFFICIENT_CPU" | "INSUFFICIENT_DEVICE" | "INSUFFICIENT_GANG" | "INSUFFICIENT_GPU" | "INSUFFICIENT_LICENCE" | "INSUFFICIENT_MEMORY" | "INSUFFICIENT_NUMA" | "INSUFFICIENT_TOPOLOGY" | "IN_CLUSTER" | "ISOLATION_UNMET" | "JOB_AFFINITY_UNMET" | "NEXT_CYCLE" | "NO_CLUSTER" | "NO_NODES" | "NO_READY_NODES" | "POWER_CAP" | "REFUSED_BY_PLUGIN" | "RESERVATION_ENDING" | "RESERVATION_FULL" | "RESERVATION_PLANNED" | "RESERVED" | "RESIDENCY_UNMET" | "RETRIES_PAUSED" | "SELECTOR_MISMATCH" | "SPOT_ONLY" | "STORAGE_PAUSED" | "TAINTED" | "WAITING_FOR_DATA" | "WAITING_FOR_EVICTION" | "WAITING_FOR_FASTER" | "WAITING_FOR_FLOW" | "WAITING_FOR_JOB";
            example: string;
            jobs: number;
            message: string;
            /** @enum {unknown} */
            remedy: "operator" | "wait" | "yours";
        };
        /**
         * Warn
         * @description A signal sent to the job ahead of its wall-time limit.
         */
        Warn: {
            /** @default 60 */
            beforeS: number;
            /**
             * @default SIGUSR1
             * @enum {unknown}
             */
            signal: "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2";
        };
        /**
         * Way
         * @description What to write instead: dotted names of fields as in JSON. It would end at about that time.
         */
        Way: {
            /** @default null */
            endsAt: number | null;
            fields: Record<string, never>;
            message: string;
            startsAt: number;
        };
        /**
         * Weight
         * @description One named part of a sum: a scorer of nodes, or a factor of a job's rank.
         */
        Weight: {
            name: string;
            weight: number;
        };
        /**
         * WhoAmI
         * @description `permissions` says how far each goes. `home` is the caller's own tenant where it acts in another.
         */
        WhoAmI: {
            expiresAt: number | null;
            home: string;
            name: string;
            permissions: {
                [key: string]: "any" | "facts" | "glass" | "mine" | "self" | "tenant";
            };
            /** @enum {unknown} */
            proof: "certificate" | "federation" | "jwt" | "session" | "token";
            /** @enum {unknown} */
            role: "admin" | "auditor" | "cluster" | "node" | "operator" | "submitter" | "tenant-admin" | "viewer";
            team: string | null;
            tenant: string;
            tokenId: string;
            user: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listAlerts: {
        parameters: {
            query?: {
                all?: boolean;
                platform?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertList"];
                };
            };
        };
    };
    acknowledgeAlert: {
        parameters: {
            query?: {
                platform?: boolean;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "note": "seen to"
                 *     }
                 */
                "application/json": components["schemas"]["AlertNote"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertRecord"];
                };
            };
        };
    };
    resolveAlert: {
        parameters: {
            query?: {
                platform?: boolean;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "note": "seen to"
                 *     }
                 */
                "application/json": components["schemas"]["AlertNote"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertRecord"];
                };
            };
        };
    };
    searchAudit: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                object?: string;
                operation?: string;
                outcome?: "ALLOW" | "DENY" | "ERROR";
                reason?: string;
                since?: number;
                tenant?: string;
                text?: string;
                until?: number;
                who?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
        };
    };
    getAuth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthView"];
                };
            };
        };
    };
    beginBrowserLogin: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "provider": "corp"
                 *     }
                 */
                "application/json": components["schemas"]["LoginBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunLogin"];
                };
            };
        };
    };
    finishBrowserLogin: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "code": "4/0AbC",
                 *       "state": "qF3y"
                 *     }
                 */
                "application/json": components["schemas"]["LoginCodeBody"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenedSession"];
                };
            };
        };
    };
    getCost: {
        parameters: {
            query?: {
                by?: "cluster" | "day" | "gpu-model" | "job" | "pool" | "team" | "tenant";
                first?: string;
                last?: string;
                limit?: number;
                pool?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CostReport"];
                };
            };
        };
    };
    listBudgets: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetList"];
                };
            };
        };
    };
    replayDecision: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "weights": {
                 *         "cost": 30
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ReplayBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayAnswer"];
                };
            };
        };
    };
    listMembers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberList"];
                };
            };
        };
    };
    drainMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                cluster: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the input was fixed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberView"];
                };
            };
        };
    };
    resumeMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                cluster: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberView"];
                };
            };
        };
    };
    getUplink: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UplinkView"];
                };
            };
        };
    };
    getGpus: {
        parameters: {
            query?: {
                node?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GpuMap"];
                };
            };
        };
    };
    listInsights: {
        parameters: {
            query?: {
                all?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InsightList"];
                };
            };
        };
    };
    judgeInsight: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "verdict": "no-anomaly",
                 *       "note": "the nightly import"
                 *     }
                 */
                "application/json": components["schemas"]["FeedbackBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InsightRecord"];
                };
            };
        };
    };
    listJobs: {
        parameters: {
            query?: {
                array?: string;
                arrays?: "tasks" | "whole";
                cursor?: string;
                label?: string[];
                limit?: number;
                name?: string;
                node?: string;
                phase?: ("CANCELLED" | "FAILED" | "PENDING" | "PREEMPTED" | "RETRYING" | "RUNNING" | "SKIPPED" | "STAGING" | "SUCCEEDED" | "UNKNOWN" | "WAITING")[];
                since?: number;
                sort?: "-submitted" | "submitted";
                until?: number;
                user?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobPage"];
                };
            };
        };
    };
    submitJob: {
        parameters: {
            query?: never;
            header?: {
                /** @description The request id: the same id with the same payload gives the same job. */
                "Idempotency-Key"?: string;
                /** @description W3C trace context of the caller. */
                traceparent?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "requestId": "nightly-2026-11-15",
                 *       "tenantId": "research",
                 *       "spec": {
                 *         "name": "train",
                 *         "command": [
                 *           "python",
                 *           "train.py"
                 *         ],
                 *         "resources": {
                 *           "memoryMib": 8192,
                 *           "gpus": 2
                 *         },
                 *         "timeLimitS": 3600
                 *       },
                 *       "inputRefs": [
                 *         "s3://datasets/imagenet/train"
                 *       ],
                 *       "priority": 1,
                 *       "estimateCores": 4,
                 *       "expectedRuntime": 1800,
                 *       "costEstimate": 12.5
                 *     }
                 */
                "application/json": components["schemas"]["SubmitBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Created"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Created"];
                };
            };
        };
    };
    getJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDetail"];
                };
            };
        };
    };
    updateJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "priority": "HIGH",
                 *       "timeLimitS": 7200,
                 *       "resources": {
                 *         "memoryMib": 16384
                 *       },
                 *       "reason": "more data"
                 *     }
                 */
                "application/json": components["schemas"]["JobUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobState"];
                };
            };
        };
    };
    cancelJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the input was fixed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobState"];
                };
            };
        };
    };
    listJobEvents: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
        };
    };
    explainJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Explanation"];
                };
            };
        };
    };
    holdJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the input was fixed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobState"];
                };
            };
        };
    };
    listOutputs: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputList"];
                };
            };
        };
    };
    listPreemptions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
        };
    };
    releaseJob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the input was fixed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobState"];
                };
            };
        };
    };
    retryJob: {
        parameters: {
            query?: never;
            header?: {
                /** @description The request id: the same id with the same payload gives the same job. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the input was fixed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobState"];
                };
            };
        };
    };
    getTrace: {
        parameters: {
            query?: {
                format?: "chrome" | "otlp" | "spans";
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobTrace"];
                };
            };
        };
    };
    getJobUse: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LiveUse"];
                };
            };
        };
    };
    resolveJob: {
        parameters: {
            query: {
                prefix: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ids"];
                };
            };
        };
    };
    openBrowserSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenedSession"];
                };
            };
        };
    };
    closeBrowserSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listNodePools: {
        parameters: {
            query?: {
                cpuMilli?: number;
                gpuModel?: string;
                gpus?: number;
                memoryMib?: number;
                ranks?: number;
                runtimeS?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolList"];
                };
            };
        };
    };
    listNodes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeList"];
                };
            };
        };
    };
    getNode: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeView"];
                };
            };
        };
    };
    getOverview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
        };
    };
    planJob: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "requestId": "nightly-2026-11-15",
                 *       "tenantId": "research",
                 *       "spec": {
                 *         "name": "train",
                 *         "command": [
                 *           "python",
                 *           "train.py"
                 *         ],
                 *         "resources": {
                 *           "memoryMib": 8192,
                 *           "gpus": 2
                 *         },
                 *         "timeLimitS": 3600
                 *       },
                 *       "inputRefs": [
                 *         "s3://datasets/imagenet/train"
                 *       ],
                 *       "priority": 1,
                 *       "estimateCores": 4,
                 *       "expectedRuntime": 1800,
                 *       "costEstimate": 12.5
                 *     }
                 */
                "application/json": components["schemas"]["SubmitBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanAnswer"];
                };
            };
        };
    };
    listPriorities: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PrioList"];
                };
            };
        };
    };
    makeComplianceReport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "first": "2026-11-01",
                 *       "last": "2026-11-30",
                 *       "format": "html"
                 *     }
                 */
                "application/json": components["schemas"]["ReportBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PeriodReport"];
                    "text/csv": components["schemas"]["PeriodReport"];
                    "text/html": components["schemas"]["PeriodReport"];
                };
            };
        };
    };
    makeCostReport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "first": "2026-11-01",
                 *       "last": "2026-11-30",
                 *       "format": "html"
                 *     }
                 */
                "application/json": components["schemas"]["ReportBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PeriodReport"];
                    "text/csv": components["schemas"]["PeriodReport"];
                    "text/html": components["schemas"]["PeriodReport"];
                };
            };
        };
    };
    makeSlaReport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "first": "2026-11-01",
                 *       "last": "2026-11-30",
                 *       "format": "html"
                 *     }
                 */
                "application/json": components["schemas"]["ReportBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PeriodReport"];
                    "text/csv": components["schemas"]["PeriodReport"];
                    "text/html": components["schemas"]["PeriodReport"];
                };
            };
        };
    };
    getSeries: {
        parameters: {
            query?: {
                name?: string;
                sinceS?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesAnswer"];
                };
            };
        };
    };
    listClasses: {
        parameters: {
            query?: {
                by?: "class" | "cluster" | "tenant";
                sinceS?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SlaList"];
                };
            };
        };
    };
    getStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlatformStatus"];
                };
            };
        };
    };
    getUsage: {
        parameters: {
            query?: {
                by?: "cluster" | "gpu-model" | "job" | "pool" | "team" | "tenant" | "user";
                limit?: number;
                sinceS?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageReport"];
                };
            };
        };
    };
    whoAmI: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhoAmI"];
                };
            };
        };
    };
}
