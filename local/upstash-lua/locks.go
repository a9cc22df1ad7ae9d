// Locks as Upstash has them: a script that names its keys excludes only those who use them, any other
// script excludes everyone. Readers of a key do not exclude each other.
package main

import (
	"sort"
	"sync"
)

type locks struct {
	// Held by all who lock keys, and alone by those who need the whole database.
	database sync.RWMutex
	mutex    sync.Mutex
	byKey    map[string]*keyLock
}

type keyLock struct {
	sync.RWMutex
	// Those who hold it or wait for it: without any, it is forgotten.
	users int
}

func newLocks() *locks { return &locks{byKey: map[string]*keyLock{}} }

// lockDatabase returns what unlocks it, as does lockKeys.
func (l *locks) lockDatabase() func() {
	l.database.Lock()
	return l.database.Unlock
}

func (l *locks) lockKeys(keys []string, isShared bool) func() {
	l.database.RLock()
	// All take their locks in the same order, and each lock once: nobody can wait in a circle.
	ordered := distinct(keys)
	for _, key := range ordered {
		if lock := l.enter(key); isShared {
			lock.RLock()
		} else {
			lock.Lock()
		}
	}
	return func() {
		for _, key := range ordered {
			l.leave(key, isShared)
		}
		l.database.RUnlock()
	}
}

func (l *locks) enter(key string) *keyLock {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lock := l.byKey[key]
	if lock == nil {
		lock = &keyLock{}
		l.byKey[key] = lock
	}
	lock.users++
	return lock
}

func (l *locks) leave(key string, isShared bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lock := l.byKey[key]
	if isShared {
		lock.RUnlock()
	} else {
		lock.Unlock()
	}
	if lock.users--; lock.users == 0 {
		delete(l.byKey, key)
	}
}

func distinct(keys []string) []string {
	ordered := append([]string{}, keys...)
	sort.Strings(ordered)
	kept := ordered[:0]
	for i, key := range ordered {
		if i == 0 || key != ordered[i-1] {
			kept = append(kept, key)
		}
	}
	return kept
}
