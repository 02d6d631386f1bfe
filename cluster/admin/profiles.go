package admin

import (
	"net/http"
	"net/http/pprof"
)

const profilesPath = "/debug/pprof/"

// addProfiles adds the profiles of the Go runtime, for operators alone: they show what the node
// works on. The paths are those that `go tool pprof` knows.
func (s *Server) addProfiles() {
	add := func(path string, handler http.HandlerFunc) {
		s.mux.Handle(path, s.guard(profilesPath, http.MethodGet, s.options.BackupTimeout,
			s.private(handler)))
	}
	add(profilesPath, pprof.Index)
	add(profilesPath+"cmdline", pprof.Cmdline)
	add(profilesPath+"profile", pprof.Profile)
	add(profilesPath+"symbol", pprof.Symbol)
	add(profilesPath+"trace", pprof.Trace)
}
