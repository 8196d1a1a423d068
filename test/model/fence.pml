/*
 * The fence, as docs/safety.md describes it, for one StatefulSet and its ordinal 1: the
 * ordinal is in range while replicas is 2. README.md tells what is modelled, what is
 * assumed, and how to read a counterexample.
 *
 * FENCE, PROOF, RECHECK and HOLD are 1; with one of them 0 the protocol lacks that part
 * and must be found wanting.
 */
#ifndef FENCE
#define FENCE 1
#endif
#ifndef PROOF
#define PROOF 1
#endif
#ifndef RECHECK
#define RECHECK 1
#endif
#ifndef HOLD
#define HOLD 1
#endif
#ifndef PRUNERS
#define PRUNERS 2
#endif

#define ABSENT  0
#define PRESENT 1
#define DYING   2

/* What the API server stores. */
byte replicas = 2;
byte version;            /* of the set: its resourceVersion */
byte generation;         /* of the set's spec */
byte observed;           /* status.observedGeneration */
byte fence;              /* its holder, 0 for none */
byte claim = PRESENT;
byte uid = 1;            /* of the claim */
bool pod = true;         /* of ordinal 1 */

/* The world around it. */
bool up = true;          /* our webhook answers */
bool proved;             /* a fence was proved and still stands */
byte unasked;            /* requests under way for which the webhook could not be asked */
byte sent[PRUNERS + 1];  /* the UID that a DELETE under way is for, 0 for none */
byte scalers = 1;        /* still at work */
byte pruners = PRUNERS;

/* Ways to end. */
#define nothingsent (sent[1] == 0 && sent[PRUNERS] == 0)
#define resting (scalers == 0 && pruners == 0 && nothingsent)

/*
 * One request to scale, as the API server carries it out: read, admission, and a
 * compare-and-swap that begins again with the read when somebody else has written.
 */
inline request(n) {
	do
	:: atomic {
		seen = version;
		if
		:: n == 2 && !up -> bypass = true; unasked++
		:: else -> bypass = false
		fi
	   }
	   if
	   :: n == 2 && !bypass -> (fence == 0) /* held; or refused, and sent again: the same */
	   :: else -> skip
	   fi;
	   atomic {
		unasked = unasked - (bypass -> 1 : 0);
		if
		:: version == seen ->
			if
			:: replicas != n -> generation++
			:: else -> skip
			fi;
			replicas = n; version++;
			break
		:: else -> skip
		fi
	   }
	od
}

/* Down, up into the prune, and down again, at any moment. */
proctype Scaler() {
	byte seen;
	bool bypass;
	request(1);
	request(2);
	request(1);
	scalers--
}

/* The StatefulSet controller, with a cache of set and claim that may be old. */
proctype Controller() {
	byte count = 2, gen = 0, known = PRESENT;
	do
	:: atomic { gen != generation -> count = replicas; gen = generation }
	:: atomic { known != claim -> known = claim }
	:: atomic { count == 2 && !pod && known == PRESENT && claim != ABSENT ->
		assert(claim != DYING); /* a pod starts on a claim that is being deleted */
		pod = true
	   }
	:: atomic { count == 2 && !pod && known == ABSENT && claim == ABSENT -> claim = PRESENT; uid++ }
	:: atomic { count == 1 && pod -> pod = false }
	:: atomic { observed != gen && (count == 2 || !pod) -> observed = gen }
	:: atomic { known == claim && gen == generation && observed == gen && resting -> break }
	od
}

/* pvc-protection: a claim goes when no pod uses it. */
proctype Protection() {
	do
	:: atomic { claim == DYING && !pod -> claim = ABSENT }
	:: atomic { claim != DYING && resting -> break }
	od
}

/* The API server carries a DELETE out some time after it was sent, if its preconditions hold. */
inline land(i) {
	if
	:: claim == PRESENT && uid == sent[i] ->
		assert(!pod); /* a claim is deleted under a pod */
		claim = DYING
	:: else -> skip
	fi;
	sent[i] = 0
}

proctype Deletes() {
	do
	:: atomic { sent[1] != 0 -> land(1) }
	:: atomic { sent[PRUNERS] != 0 -> land(PRUNERS) }
	:: atomic { resting -> break }
	od
}

/* Our webhook fails and comes back. */
proctype Outage() {
	do
	:: atomic { up && !proved -> up = false }
	:: atomic { !up && unasked == 0 -> up = true }
	:: atomic { up && resting -> break }
	od
}

/* Fences end by themselves, long after every DELETE that was sent behind them. */
proctype Expiry() {
	do
	:: atomic { fence != 0 && nothingsent && claim != DYING ->
		fence = 0; proved = false }
	:: atomic { fence == 0 && resting -> break }
	od
}

inline maycrash() {
	if
	:: skip
	:: goto dead
	fi
}

/* One step of a pruner. Two at once: an old leader and a new one. */
proctype Pruner(byte me) {
	byte seen, spec, target;
	byte tries = 2;
again:
	if
	:: tries == 0 -> goto dead
	:: else -> tries--
	fi;
	/* The set, live. */
	atomic {
		if
		:: replicas == 1 && observed == generation && fence == 0 -> seen = version; spec = generation
		:: else -> goto again
		fi
	}
	maycrash();
#if FENCE
	/* The fence, through our own mutating webhook, and only into the version that was read. */
	atomic {
		if
		:: version == seen && up -> fence = me; version++
		:: else -> goto again
		fi
	}
	maycrash();
#if PROOF
	atomic {
		if
		:: up && fence == me -> proved = true
		:: else -> goto lower
		fi
	}
	maycrash();
#endif
#endif
	/* Pods, claims and sets, live: the set among them, because a scale-up may have passed
	   while our webhook was down and before the proof. */
	atomic {
		if
		:: claim == PRESENT && !pod && (generation == spec || !RECHECK) -> target = uid
		:: else -> goto lower
		fi
	}
	maycrash();
	/* A DELETE is sent only while the fence has time left, by the pruner's own clock. */
	atomic {
#if FENCE
		if
		:: fence != me -> goto again
		:: else -> skip
		fi;
#endif
		sent[me] = target
	}
	if
	:: sent[me] == 0 /* the answer */
	:: goto dead     /* none in time, or a crash: the fence stays to its end */
	fi;
#if HOLD
	if
	:: claim != DYING || uid != target
	:: goto dead
	fi;
#endif
lower:
#if FENCE
	maycrash();
	atomic {
		if
		:: fence == me -> fence = 0; proved = false; version++
		:: else -> skip
		fi
	}
#endif
dead:
	pruners--
}

init {
	atomic {
		run Scaler(); run Controller(); run Protection(); run Deletes(); run Outage(); run Expiry();
		run Pruner(1);
#if PRUNERS == 2
		run Pruner(2)
#endif
	}
}
